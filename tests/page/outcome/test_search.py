"""The panel of a search, of one that runs with a pruned trial, and of one with two objectives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diel.ui.page.outcome.search import STEPS, loops, parts, reported
from diel.ui.page.panel import Alternatives, Grid, Part, Plot, RunView, Text
from tests.handmade import Handmade
from tests.searched import LOOP, MATERIALS, Searched, loop, search


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


FLOW = "axes: {i: {range: 3}}\nstages: {train: {over: [i], command: [x]}}"


def test_each_metric_is_drawn_by_step_and_one_that_only_counts_comes_last(tmp_path: Path) -> None:
    run = Handmade(tmp_path, FLOW).stage("train", 3)
    for index in (0, 2):
        folder = run.paths.task_dir("train", index, 1)
        folder.mkdir(parents=True)
        lines = [{"epoch": n, "items": 10 * n, "loss": 1 / (1 + n + index)} for n in range(500)]
        (folder / ".metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (choice,) = reported(RunView(run.paths))
    assert isinstance(choice, Alternatives)
    assert [name for name, _ in choice.charts] == ["loss", "items"]
    chart = choice.charts[0][1]
    rows = chart.spec["data"]["values"]
    assert {row["who"] for row in rows} == {"train/0 (i=0)", "train/2 (i=2)"}
    assert len(rows) == 2 * STEPS
    assert [row["step"] for row in rows[:STEPS]][::99] == [0, 499]


def test_tasks_that_reported_nothing_have_no_chart(tmp_path: Path) -> None:
    assert list(reported(RunView(Handmade(tmp_path, FLOW).stage("train", 3).paths))) == []


@pytest.mark.parametrize(
    ("over", "told"),
    [
        (True, "round: over after 3 rounds: `until` held in round 2 (loop until check.error < 0.1)."),
        (False, "round: round 3 of at most 100, 3 done (loop until check.error < 0.1)."),
    ],
)
def test_each_round_is_drawn_with_the_bound_whether_or_not_it_is_over(
    tmp_path: Path, over: bool, told: str
) -> None:
    text, chart = loops(RunView(loop(tmp_path, over=over).paths))
    assert text == Text(told)
    assert isinstance(chart, Plot)
    assert [(row["round"], row["y"], row["holds"]) for row in chart.spec["data"]["values"]] == [
        (0, 0.8, "no"),
        (1, 0.4, "no"),
        (2, 0.05 if over else 0.2, "yes" if over else "no"),
    ]
    assert chart.spec["layer"][2]["data"] == {"values": [{"y": 0.1, "name": "check.error < 0.1"}]}
    assert "color" not in chart.spec["layer"][3]["mark"]  # the page's ink, light or dark


def test_the_rounds_of_each_point_have_a_line_and_a_colour_of_their_own(tmp_path: Path) -> None:
    text = LOOP.replace("axes:", "axes:\n  fold: {range: 2}").replace("over: [", "over: [fold, ")
    run = Searched(tmp_path, text)
    for fold in range(2):
        run.about("begin", fold, at={"fold": fold}, seed=0)
        for number in range(2):
            error = 1.0 / (1 + fold + number)
            run.about("round", fold, number=number, holds=False, values={"check.error": error})
    *_, chart = loops(RunView(run.paths))
    assert isinstance(chart, Plot)
    lines, points = (layer["encoding"] for layer in chart.spec["layer"][:2])
    assert lines["color"] == points["color"]
    assert points["color"]["field"] == "at"
    assert points["shape"]["scale"] == {"domain": ["no", "yes"], "range": ["circle", "diamond"]}


def test_a_loop_that_has_not_begun_is_told_and_not_drawn(tmp_path: Path) -> None:
    (text,) = loops(RunView(Searched(tmp_path, LOOP).paths))
    told = "round: round 0 of at most 100, 0 done (waiting) (loop until check.error < 0.1)."
    assert text == Text(told)
