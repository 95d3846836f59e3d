"""What a module takes from axes is held to its types at their points, before the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.asking import checked, problems
from tests.throwaway import Project

MODULE = """
from typing import Annotated, Literal
from pydantic import Field
def f(size: Annotated[int, Field(ge=8, le=100)] = 8, mode: Literal["fast", "slow"] = "fast", x: float = 1.0,
      xs: list[int] = [], part: Annotated[float, Field(gt=0, lt=1)] = 0.5,
      order: Literal["auto", 1] = 1) -> dict:
    return {}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "m.py").write_text(MODULE)
    return tmp_path


def flow(axis: str, rest: str = "") -> str:
    return f"axes: {{{axis}}}\nstages: {{s: {{module: 'm:f', over: [{axis.partition(':')[0]}]{rest}}}}}\n"


GOOD = [
    flow("size: {values: [8, 100]}"),
    flow("size: {range: [8, 101]}"),
    flow("x: {values: [1, 2.5]}"),
    flow("size: {values: [1, 8]}", ", when: 'size > 1'"),
    flow("order: {values: [1, auto]}"),
    flow("part: {sample: {method: uniform, points: 3, parameters: {part: {low: 0, high: 1}}}}"),
    flow("b: {values: [1, 8]}", ", params: {size: '${{ b + 8 }}', x: '${{ 1 / b }}'}"),
    flow("b: {values: [0, 8]}", ", params: {x: '${{ 1 / b }}'}"),  # its task tells that there is no number
]
BAD = [
    (flow("size: {values: [16, 7]}"), "axes.size.values.1: 'size' at size=7: expected at least 8, found 7"),
    (flow('size: {values: [16, "9"]}'), "axes.size.values.1: 'size' at size=9: expected a whole number"),
    (flow("size: {values: [16, 8.5]}"), "found 8.5"),
    (flow("size: {values: [16, true]}"), "expected a whole number, found true"),
    (
        flow("mode: {values: [fast, slwo]}"),
        "axes.mode.values.1: 'mode' at mode=slwo: expected 'fast' or 'slow'",
    ),
    (
        flow("order: {values: [1, true]}"),
        "axes.order.values.1: 'order' at order=true: expected 'auto' or 1, found true",
    ),
    (flow("order: {values: [1, 1.0]}"), "expected 'auto' or 1, found 1.0"),
    (flow("size: {range: [8, 30000]}"), "axes.size: 'size' at size=101: expected at most 100"),
    (flow("k: {zip: {size: [8, 101], x: [1, 2]}}"), "axes.k.zip.size.1: 'size' at size=101, x=2"),
    (
        flow("b: {values: [16, 9]}", ", params: {size: '${{ b / 1 }}'}"),
        "stages.s.params.size: 'size' at b=16",
    ),
    (
        flow("b: {values: [60, 40]}", ", params: {size: '${{ 2 * b }}'}"),
        "'size' at b=60: expected at most 100",
    ),
    (flow("b: {values: [1, 2]}", ", params: {xs: ['${{ b }}', '${{ b / 2 }}']}"), "found 0.5 in [1, 0.5]"),
    (
        flow("d: {sample: {method: lhs, points: 3, parameters: {size: {low: 8, high: 90}}}}"),
        "expected a whole number",
    ),
    (
        flow("d: {sample: {method: lhs, points: 3, parameters: {part: {low: 0.1, high: 1.5}}}}"),
        "expected less than 1",
    ),
    (
        "axes: {a: {range: 1000}, b: {range: 1000}}\n"
        "stages: {s: {module: 'm:f', over: [a, b], params: {size: '${{ 8 + (a + b) // 20 }}'}}}\n",
        "'size' at a=999, b=999: expected at most 100",
    ),
    (
        "hyperparameters: {n: {type: int, default: 7}}\nstages: {s: {module: 'm:f', inputs: {size: hp.n}}}\n",
        "found 7",
    ),
]


@pytest.mark.parametrize("text", GOOD)
def test_points_that_fit_are_let_through(folder: Path, text: str) -> None:
    checked(folder, text)


@pytest.mark.parametrize(("text", "told"), BAD)
def test_a_point_that_does_not_fit_is_told(folder: Path, text: str, told: str) -> None:
    (problem,) = problems(folder, text)
    assert told in str(problem)


DRAWN = (
    "hyperparameters: {x: {type: float, default: 3.0, low: 1.0, high: 9.0}}\n"
    "axes: {d: {sample: {method: uniform, points: 4, parameters: [x]}}}\n"
)


@pytest.mark.parametrize(
    ("stage", "told"),
    [
        ("module: 'm:f'", ""),
        ("command: [./sim]", ""),  # which can read DIEL_PARAMS
        ("command: 'echo ${{ x / hp.x }}'", ""),
        ("command: 'echo ${{ d.x }}'", ""),
        (
            "command: 'echo ${{ hp.x }}'",
            "stages.s.command: hp.x is the same in all tasks, and axis 'd' draws 'x'",
        ),
        ("module: 'm:f', params: {x: '${{ hp.x }}'}", "stages.s.params.x: hp.x is the same in all tasks"),
        ("module: 'm:f', inputs: {x: hp.x}", "stages.s.inputs.x: hp.x is the same in all tasks"),
        ("module: 'm:f', params: {x: 1.0}", "axes.d.sample.parameters.0: no stage reads 'x'"),
    ],
)
def test_what_is_drawn_for_a_hyperparameter_is_read(folder: Path, stage: str, told: str) -> None:
    text = f"{DRAWN}stages: {{s: {{over: [d], {stage}}}}}\n"
    if not told:
        checked(folder, text)
        return
    (problem,) = problems(folder, text)
    assert told in str(problem)


def test_a_column_of_numbers_has_the_type_that_is_printed_and_a_warning_says_what_becomes_of_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "t.csv").write_text("T\n0.5\n2\n")
    project = Project(tmp_path).workflow("""
        axes: {s: {file: t.csv}}
        stages: {h: {over: [s], module: "builtins:repr", params: {obj: "${{ T }}"}, outputs: {text: {}}}}
    """)
    said = project.diel("validate", "flow.yaml")
    assert "s: T: float" in said
    assert "column 'T': 2 is read as 2.0" in said
    assert project.run().values("h", "text") == ["0.5", "2.0"]
