"""The panel of a search, of one that runs with a pruned trial, and of one with two objectives."""

from __future__ import annotations

from pathlib import Path

from diel.page.outcome.search import parts
from diel.page.panel import Alternatives, Grid, Part, Plot, Text
from diel.page.run_view import RunView
from tests.searched import MATERIALS, Searched, search


def chart_of(found: list[Part], words: str) -> Plot:
    charts = [part for part in found if isinstance(part, Plot)]
    charts += [chart for part in found if isinstance(part, Alternatives) for _, chart in part.charts]
    return next(chart for chart in charts if words in chart.caption)


def test_history_has_every_score_the_best_so_far_and_where_pruned_trials_had_come(tmp_path: Path) -> None:
    found = list(parts(RunView(search(tmp_path, alive=True).paths)))
    told = "trial: 5 of 6 trials: 3 complete, 1 running, 1 pruned; best trial 1: 0.25, x=0.5 "
    told += "(tpe, minimize f.loss)."
    assert found[0] == Text(told)
    history = chart_of(found, "the best so far")
    assert [
        (row["trial"], row["state"], row["y0"], row.get("best")) for row in history.spec["data"]["values"]
    ] == [
        (0, "complete", 4.0, 4.0),
        (1, "complete", 0.25, 0.25),
        (2, "complete", 9.0, 0.25),
        (3, "pruned", 200.0, 0.25),
    ]
    points = history.spec["layer"][1]["encoding"]
    assert points["shape"]["scale"] == {"domain": ["complete", "pruned"], "range": ["circle", "cross"]}


def test_the_table_has_the_best_trial_first_and_why_others_have_no_score(tmp_path: Path) -> None:
    found = list(parts(RunView(search(tmp_path).paths)))
    table = next(part for part in found if isinstance(part, Grid))
    assert list(table.columns) == ["trial", "state", "f.loss", "x", "why"]
    assert list(table.rows[0]) == [1, "complete", 0.25, 0.5, ""]
    assert [3, "pruned", None, 4.5, "f.loss was 200 at step 0"] in [list(row) for row in table.rows]


def test_importance_is_told_only_of_enough_trials(tmp_path: Path) -> None:
    few = list(parts(RunView(search(tmp_path / "few").paths)))
    assert any("too few complete trials" in part.text for part in few if isinstance(part, Text))
    run = search(tmp_path / "many")
    for number in range(5, 12):
        run.trial(number, number / 4).score(number, (number / 4) ** 2)
    chart = chart_of(list(parts(RunView(run.paths))), "what matters for f.loss")
    assert [row["share"] for row in chart.spec["data"]["values"]] == [1.0]


def test_learning_curves_end_in_a_cross_where_a_trial_was_pruned(tmp_path: Path) -> None:
    run = search(tmp_path)
    for number in (0, 1):
        folder = run.paths.task_dir("f", number, 1)
        (folder / ".metrics.jsonl").write_text('{"step": 0, "loss": 5}\n')
    run.trial(5, 1.0)
    for number, steps in ((5, 3), (4, 2)):
        for step in range(steps):
            run.about("reported", number=number, step=step, value=10.0 - step)
    run.prune(5, "worse")
    chart = chart_of(list(parts(RunView(run.paths))), "a cross is where")
    lines, crosses = chart.spec["layer"]
    assert lines["encoding"]["color"]["scale"]["domain"] == ["best", "complete", "pruned", "running"]
    ends = {(row["trial"], row["step"], row["y"]) for row in crosses["data"]["values"]}
    assert ends == {(3, 0, 200.0), (5, 2, 8.0)}


def test_the_front_of_two_objectives_is_drawn_with_its_trials_numbers(tmp_path: Path) -> None:
    run = Searched(tmp_path, MATERIALS).about("begin", 0, seed=1, at={"material": "Si"})
    for number, values in enumerate(((1.0, 4.0), (2.0, 2.0), (3.0, 3.0), (4.0, 1.0))):
        run.trial(number, float(number), 0).score(number, *values, context=(0,))
    chart = chart_of(list(parts(RunView(run.paths))), "Pareto front")
    assert chart.caption == "trial at material Si: 3 trials on the Pareto front, by number"
    which = {row["trial"]: row["best"] for row in chart.spec["data"]["values"]}
    assert which == {0: "on the front", 1: "on the front", 2: "other", 3: "on the front"}
    step, _, numbers = chart.spec["layer"]
    assert step["mark"]["interpolate"] == "step-after"
    assert numbers["encoding"]["text"] == {"field": "trial"}


def test_a_front_steps_along_what_no_trial_surpasses_and_its_axes_have_units(tmp_path: Path) -> None:
    text = MATERIALS.replace("minimize: [f.loss, f.time]", "maximize: [f.loss, f.time]")
    text = text.replace("loss: {value: float}", "loss: {value: float, units: eV}")
    run = Searched(tmp_path, text).about("begin", 0, seed=1, at={"material": "Si"})
    for number, values in enumerate(((1.0, 4.0), (2.0, 2.0))):
        run.trial(number, float(number), 0).score(number, *values, context=(0,))
    step, points, _ = chart_of(list(parts(RunView(run.paths))), "Pareto front").spec["layer"]
    assert step["mark"]["interpolate"] == "step-before", "between them no trial has more than the next one"
    assert [points["encoding"][one]["title"] for one in ("x", "y")] == ["f.loss (eV)", "f.time"]


def test_coordinates_need_two_hyperparameters_and_show_the_ends_of_each(tmp_path: Path) -> None:
    text = (
        MATERIALS.replace(
            "x: {type: float, low: -5, high: 5}",
            (
                "x: {type: float, low: 0.001, high: 10, log: true}\n  k: {type: choice, choices: [a, b], default: a}"
            ),
        )
        .replace("parameters: [x]", "parameters: [x, k]")
        .replace("[f.loss, f.time]", "f.loss")
        .replace(", sampler: nsga2", "")
        .replace("pareto", "best")
    )
    run = Searched(tmp_path, text).about("begin", 0, seed=1, at={"material": "Si"})
    for number, (x, k) in enumerate(((0.01, "a"), (0.1, "b"), (1.0, "a"))):
        run.about("trial", 0, number=number, hp={"x": x, "k": k}).score(number, x, context=(0,))
    chart = chart_of(list(parts(RunView(run.paths))), "hyperparameters of each complete trial")
    _, threads, labels = chart.spec["layer"]
    middle = [row["at"] for row in chart.spec["data"]["values"] if row["value"] == 0.1]
    assert middle == [0.5], "the logarithm of 0.1 is halfway"
    assert [row["label"] for row in labels["data"]["values"]] == ["0.01", "1", "a", "b"]
    scale = threads["encoding"]["color"]["scale"]
    assert scale["reverse"] is False, "dark is good"
    assert 0 < scale["scheme"]["extent"][0] < scale["scheme"]["extent"][1] < 1, (
        "its ends are lost in dark or light"
    )
