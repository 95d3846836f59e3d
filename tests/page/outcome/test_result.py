"""The plots of results: which one is drawn follows from what the axes are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.ui.page.outcome.result import LARGEST, artifacts, parts
from diel.ui.page.panel import Alternatives, Grid, Part, Picture, Plot, RunView, Text
from tests.handmade import Handmade
from tests.searched import search

STAGE = "stages: {sim: {over: [%s], command: [x], outputs: {energy: {value: float, units: eV}}}}"


def run_over(folder: Path, axes: str, over: str, total: int) -> Handmade:
    """A run whose tasks made a number each, another at each point."""
    run = Handmade(folder, f"axes: {{{axes}}}\n{STAGE % over}").stage("sim", total)
    for index in range(total):
        run.done("sim", index, energy=float(index * index))
    return run


def charts(run: Handmade) -> dict[str, Plot]:
    """All plots that a reader can choose, by their names."""
    found: dict[str, Plot] = {}
    for part in parts(RunView(run.paths)):
        if isinstance(part, Alternatives):
            found.update(part.charts)
        elif isinstance(part, Plot):
            found[part.caption] = part
    return found


def marks(chart: Plot) -> list[str]:
    layers = chart.spec.get("layer", [chart.spec])
    return [one["mark"] if isinstance(one["mark"], str) else one["mark"]["type"] for one in layers]


def test_a_plot_is_plain_data_with_units_and_a_logarithmic_axis_for_a_logspace(tmp_path: Path) -> None:
    run = run_over(tmp_path, "depth: {logspace: [0, 2, 3]}, seed: {range: 2}", "depth, seed", 6)
    (chart,) = charts(run).values()
    assert chart.caption == "sim: energy (eV) along depth, a line for each seed"
    axis: dict[str, Any] = {"field": "x0", "type": "quantitative", "title": "depth"}
    axis["axis"] = {"format": ".5~g"}
    tip = {"type": "quantitative", "format": ".5~g"}
    assert chart.spec == {
        "data": {
            "values": [
                {"x0": 10.0 ** (place // 2), "x1": place % 2, "y0": float(place * place)}
                for place in range(6)
            ]
        },
        "height": 260,
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {**axis, "scale": {"type": "log", "nice": False, "padding": 8}},
            "color": {
                "field": "x1",
                "type": "nominal",
                "title": "seed",
                "sort": None,
                "legend": {"format": ".5~g"},
            },
            "y": {**axis, "field": "y0", "title": "energy (eV)", "scale": {"zero": False}},
            "tooltip": [
                {"field": "x0", "title": "depth", **tip},
                {"field": "x1", "title": "seed", **tip},
                {"field": "y0", "title": "energy (eV)", **tip},
            ],
        },
    }
    assert chart.table.columns == ["depth", "seed", "energy (eV)"]
    assert [list(row) for row in chart.table.rows][:2] == [[1.0, 0, 0.0], [1.0, 1, 1.0]]


GRID = "x: {linspace: [0, 1, 6]}, y: {linspace: [0, 2, 5]}"
ZIPPED = "p: {zip: {a: {linspace: [0, 1, 6]}, b: {values: [5.0, 2.0, 7.0, 1.0, 9.0, 3.0]}}}"


@pytest.mark.parametrize(
    ("axes", "over", "total", "first", "names"),
    [
        (
            GRID,
            "x, y",
            30,
            ["rect"],
            ["energy (eV) as a heat map", "energy (eV) along x", "energy (eV) along y"],
        ),
        (
            ZIPPED,
            "p",
            6,
            ["point"],
            ["energy (eV) over a and b", "energy (eV) against a", "energy (eV) against b"],
        ),
        ("kind: {values: [fcc, bcc, hcp]}", "kind", 3, ["point"], ["sim: energy (eV) by kind"]),
        (
            "w: {zip: {way: [serial, data, tensor], ranks: [1, 2, 2]}}",
            "w",
            3,
            ["point"],
            ["sim: energy (eV) by way"],
        ),
        (
            "x: {linspace: [0, 1, 3]}, s: {range: 20}, m: {values: [a, b]}",
            "x, s, m",
            120,
            ["area", "line", "text"],
            ["sim: the mean of energy (eV) along x, its range over s, and n, the tasks in it"],
        ),
        (
            "s: {range: 3}, m: {values: [a, b]}, k: {values: [x, y, z]}",
            "s, m, k",
            18,
            ["point"],
            ["sim: energy (eV) by k"],
        ),
        (
            "r: {loop: {max: 4}}, s: {range: 3}, x: {values: [20, 40]}",
            "s, x, r",
            24,
            ["area", "line", "text"],
            ["energy (eV) along r", "energy (eV) along x"],
        ),
    ],
    ids=[
        "grid",
        "several numbers at a point",
        "names",
        "names with numbers",
        "many seeds",
        "names and seeds",
        "rounds",
    ],
)
def test_the_axes_choose_the_plot(
    tmp_path: Path, axes: str, over: str, total: int, first: list[str], names: list[str]
) -> None:
    found = charts(run_over(tmp_path, axes, over, total))
    assert list(found) == names
    assert marks(next(iter(found.values()))) == first


def test_what_a_search_drew_is_dots_as_nothing_orders_it(tmp_path: Path) -> None:
    shown = {name: chart for name, chart in charts(search(tmp_path)).items() if "loss" in name}
    assert list(shown) == ["f: loss against hp.x"]
    assert marks(shown["f: loss against hp.x"]) == ["point"]


def test_of_many_seeds_the_mean_and_the_range_are_drawn(tmp_path: Path) -> None:
    run = run_over(tmp_path, "x: {values: [1.0, 2.0]}, s: {range: 9}", "x, s", 18)
    chart = next(iter(charts(run).values()))
    assert chart.caption == "sim: the mean of energy (eV) along x, its range over s, and n, the tasks in it"
    first = chart.spec["data"]["values"][0]
    assert first == {
        "x0": 1.0,
        "y0": sum(n * n for n in range(9)) / 9,
        "low": 0.0,
        "high": 64.0,
        "n": 9,
    }


@pytest.mark.parametrize(("total", "known"), [(1, "{x: {range: 1}}"), (2, "{x: {range: 4}}")])
def test_one_point_or_no_difference_is_no_chart(tmp_path: Path, total: int, known: str) -> None:
    run = Handmade(tmp_path, f"axes: {known}\n{STAGE % 'x'}").stage("sim", total)
    for index in range(total):
        run.done("sim", index, energy=7.0)
    found = list(parts(RunView(run.paths)))
    assert [type(part) for part in found] == [Grid]
    assert found[0].rows == [["sim.energy", "x", f"{total} of {total}", "7.0"]]  # type: ignore[union-attr]


def test_many_results_are_thinned_by_a_rule_that_is_told(tmp_path: Path) -> None:
    run = run_over(tmp_path, "x: {linspace: [0, 1, 3000]}", "x", 3000)
    found: list[Part] = list(parts(RunView(run.paths)))
    notes = [part.text for part in found if isinstance(part, Text)]
    assert notes == ["sim: drawn is every 2nd point of x: 1,500 of 3,000 tasks."]
    (chart,) = charts(run).values()
    assert [row["x0"] for row in chart.spec["data"]["values"]][:2] == [0.0, pytest.approx(2 / 2999, rel=1e-5)]
    assert chart.table.more == 1500 - len(chart.table.rows)


def test_numbers_without_a_place_in_a_chart_are_counted_under_it(tmp_path: Path) -> None:
    run = Handmade(tmp_path, f"axes: {{x: {{linspace: [0, 1, 6]}}}}\n{STAGE % 'x'}").stage("sim", 6)
    for index, value in enumerate((1.0, float("nan"), 1e308, 10**400, 2.0, 3.0)):
        run.done("sim", index, energy=value)
    told = [part for part in parts(RunView(run.paths)) if isinstance(part, Text)]
    assert told == [Text("sim: 3 of 6 have no energy (eV) that can be drawn.", "note")]
    (chart,) = charts(run).values()
    assert [row.get("y0") for row in chart.spec["data"]["values"]] == [1.0, None, None, None, 2.0, 3.0]


def test_a_line_has_a_gap_where_a_task_failed_and_a_mean_says_of_how_many(tmp_path: Path) -> None:
    run = Handmade(tmp_path, f"axes: {{x: {{linspace: [0, 1, 5]}}}}\n{STAGE % 'x'}").stage("sim", 5)
    for index in (0, 1, 3, 4):
        run.done("sim", index, energy=-12345.6789 + 1e-4 * index)
    run.failed("sim", 2)
    (chart,) = charts(run).values()
    energies = {row["x0"]: row.get("y0") for row in chart.spec["data"]["values"]}
    assert energies[0.5] is None
    assert energies[0.25] == -12345.6789 + 1e-4, "a chart gets full numbers"
    assert chart.spec["encoding"]["y"]["axis"] == {"format": ".11~g"}
    told = [part.text for part in parts(RunView(run.paths)) if isinstance(part, Text)]
    assert told == ["sim: 1 of 5 have no energy (eV) that can be drawn."]


def test_a_mean_says_of_how_many_tasks_it_is(tmp_path: Path) -> None:
    text = f"axes: {{x: {{values: [1.0, 2.0, 3.0]}}, s: {{range: 9}}}}\n{STAGE % 'x, s'}"
    run = Handmade(tmp_path, text).stage("sim", 27)
    for index in range(27):
        _ = run.done("sim", index, energy=float(index)) if index < 10 else run.failed("sim", index)
    (chart,) = charts(run).values()
    rows = chart.spec["data"]["values"]
    assert [(row["x0"], row["n"], "y0" in row) for row in rows] == [(1, 9, True), (2, 1, True), (3, 0, False)]
    assert chart.spec["layer"][2]["encoding"]["text"]["field"] == "n"


def test_a_heat_map_over_a_further_axis_draws_and_tables_a_mean_for_each_cell(tmp_path: Path) -> None:
    text = f"axes: {{{GRID}, s: {{range: 3}}}}\n{STAGE % 'x, y, s'}"
    run = Handmade(tmp_path, text).stage("sim", 90)
    for index in range(90):
        _ = run.done("sim", index, energy=float(index)) if index else run.failed("sim", index)
    chart = charts(run)["energy (eV) as a heat map"]
    assert chart.table.columns == ["x", "y", "energy (eV)", "least", "most", "n"]
    assert [list(row) for row in chart.table.rows][:2] == [
        [0.0, 0.0, 1.5, 1.0, 2.0, 2],
        [0.0, 0.5, 4.0, 3.0, 5.0, 3],
    ]
    assert (len(chart.table.rows), len(chart.spec["data"]["values"])) == (30, 30)
    assert chart.spec["encoding"]["color"]["field"] == "y0"
    assert [tip["title"] for tip in chart.spec["encoding"]["tooltip"]] == chart.table.columns


FLOW = "axes: {i: {range: 5}}\nstages: {draw: {over: [i], command: [x], outputs: {figure: {path: a}}}}"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(50)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def drawn(folder: Path, *files: tuple[str, bytes]) -> Handmade:
    run = Handmade(folder, FLOW).stage("draw", 5)
    for index, (name, content) in enumerate(files):
        made(run, "draw", index, figure=(name, content))
    return run


def made(run: Handmade, stage: str, index: int, **files: tuple[str, bytes]) -> None:
    entries = {}
    for output, (name, content) in files.items():
        path = run.paths.task_dir(stage, index, 1) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        place = f"tasks/{stage}/{index}/{name}"
        entries[output] = {"path": place, "size": len(content), "digest": f"d{index}"}
    run.work("done", stage, index, seconds=1.0, key="k", artifacts=entries)


def test_files_are_listed_by_path_and_images_are_shown(tmp_path: Path) -> None:
    table, *pictures = artifacts(
        RunView(drawn(tmp_path, ("a.svg", SVG), ("b.png", PNG), ("c.txt", b"x")).paths)
    )
    assert isinstance(table, Grid)
    assert list(table.rows[2]) == ["tasks/draw/2/c.txt", "figure", "draw/2", "1 B", "d2", ""]
    assert pictures == [
        Picture("draw/0 (i=0): figure", "figure of draw/0 (i=0): figure", "image/svg+xml", SVG),
        Picture("draw/1 (i=1): figure", "figure of draw/1 (i=1): figure", "image/png", PNG),
    ]


def test_a_link_out_of_the_run_is_not_followed(tmp_path: Path) -> None:
    run = drawn(tmp_path, ("a.svg", SVG), ("b.svg", SVG), ("c.svg", SVG))
    (tmp_path / "secret.svg").write_bytes(SVG)
    for index, target in ((0, tmp_path / "secret.svg"), (1, "b.svg")):  # the second leads to itself
        link = run.paths.task_dir("draw", index, 1) / f"{'ab'[index]}.svg"
        link.unlink()
        link.symlink_to(target)
    assert [part.caption for part in artifacts(RunView(run.paths)) if isinstance(part, Picture)] == [
        "draw/2 (i=2): figure"
    ]


def test_of_many_tasks_all_images_of_some_are_shown(tmp_path: Path) -> None:
    text = """
axes: {i: {range: 90}}
stages:
  draw: {over: [i], command: [x], outputs: {left: {path: l.svg}, right: {path: r.svg}}}
  sum: {command: [x], after: [draw], outputs: {whole: {path: w.svg}}}
"""
    run = Handmade(tmp_path, text).stage("draw", 90).stage("sum", 1)
    for index in range(90):
        made(run, "draw", index, left=("l.svg", SVG), right=("r.svg", SVG))
    made(run, "sum", 0, whole=("w.svg", SVG))
    captions = [part.caption for part in artifacts(RunView(run.paths)) if isinstance(part, Picture)]
    assert captions.count("sum/0: whole") == 1
    assert len(captions) == 13
    shown = {caption.partition(":")[0] for caption in captions[:-1]}
    assert sorted(captions[:-1]) == sorted(f"{task}: {name}" for task in shown for name in ("left", "right"))


def test_an_svg_that_is_not_whole_is_not_shown(tmp_path: Path) -> None:
    files = ("a.svg", SVG), ("b.svg", SVG[:-3]), ("c.svg", b"<html/>")
    found = [part for part in artifacts(RunView(drawn(tmp_path, *files).paths)) if not isinstance(part, Grid)]
    assert [type(part) for part in found] == [Picture, Text]


def test_what_is_too_large_gone_or_no_image_is_counted(tmp_path: Path) -> None:
    files = ("a.svg", SVG), ("b.png", PNG + bytes(LARGEST)), ("c.png", b"text"), ("d.svg", SVG)
    run = drawn(tmp_path, *files)
    (run.paths.task_dir("draw", 3, 1) / "d.svg").unlink()
    found = list(artifacts(RunView(run.paths)))
    assert sum(isinstance(part, Picture) for part in found) == 1
    assert isinstance(found[-1], Text)
    assert found[-1].text.startswith("1 of 4 images are shown: ")
