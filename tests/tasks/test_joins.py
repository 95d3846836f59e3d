"""Gathered values that meet in one task are joined by their points, as pandas joins and groups tables."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from diel.base.states import TaskState
from diel.controller.finder import Finder
from diel.worker.attempt.bundle import Request
from tests.controller.bench import Bench

PAIR = """
axes: {x: {range: 4}, z: {range: 2}}
stages:
  a: {over: [x], when: x != 1, command: [a], outputs: {v: {value: int}}}
  b: {over: [x], when: x != 2, command: [b], outputs: {v: {value: int}}}
  c: {over: [z], command: [c], outputs: {v: {value: int}}}
"""


class Study:
    """A workflow whose tasks a test ends, each as it says."""

    def __init__(self, folder: Path, text: str) -> None:
        self.bench = Bench(folder, text)
        self.finder = Finder(self.bench.stages, self.bench.ledger, None, frozenset())

    def ready(self, stage: str) -> dict[int, Request]:
        """The tasks that can begin, by number."""
        tasks = self.finder.ready_tasks(self.bench.stages.runs[stage], 10_000, math.inf)
        return {task.index: task for task in tasks}

    def end(self, stage: str, values: dict[int, Any], *failed: int) -> None:
        """Ends the tasks that can begin: some fail, all others give a value."""
        for index in self.ready(stage):
            if index in failed:
                self.bench.fail(stage, index)
            else:
                self.bench.done(stage, index, v=values[index])

    def state(self, stage: str, index: int = 0) -> TaskState:
        return self.bench.stages.runs[stage].history.state(index)


def paired(folder: Path, reader: str, *failed: int) -> Study:
    """`a` without x = 1 gave 0, 2, 3; `b` without x = 2 gave 0, 10, 30, but for those that failed."""
    study = Study(folder, PAIR + reader)
    study.end("a", {x: x for x in range(4)})
    study.end("b", {x: 10 * x for x in range(4)}, *failed)
    study.end("c", {0: 7, 1: 8})
    return study


@pytest.mark.parametrize(
    ("reader", "found"),
    [
        ("inputs: {p: a.v, q: b.v, r: c.v}", {"p": [0, 3], "q": [0, 30], "r": [7, 8]}),
        ("inputs: {p: a.v}, params: {q: '${{ b.v }}'}", {"p": [0, 3], "q": [0, 30]}),
        (
            "params: {columns: {p: '${{ a.v[1:] }}', q: '${{ b.v }}'}}",
            {"columns": {"p": [3], "q": [30]}},
        ),
        ("params: {p: '${{ sum(a.v) }}', q: '${{ b.v }}'}", {"p": 5, "q": [0, 10, 30]}),
        (
            "inputs: {p: a.v, q: b.v}, params: {n: '${{ len(inputs.q) }}'}",
            {"p": [0, 3], "q": [0, 30], "n": 3},
        ),
        (
            "inputs: {p: {from: a.v, missing: null}, q: b.v}",
            {"p": [0, None, 3], "q": [0, 10, 30]},
        ),
        ("inputs: {p: {from: a.v, missing: null}}", {"p": [0, None, 2, 3]}),
        (
            "params: {p: 'at ${{ a.v }}', q: \"${{ join(b.v, '+') }}\", r: '${{ a.x }}'}",
            {"p": "at [0, 3]", "q": "0+30", "r": [0, 3]},
        ),
    ],
)
def test_what_one_task_takes_keeps_the_points_that_all_have(
    workspace: Path, reader: str, found: dict[str, Any]
) -> None:
    task = paired(workspace, f"  fit: {{command: [fit], {reader}}}").ready("fit")[0]
    assert {**task.params, **task.inputs} == found
    assert all(
        type(value) in (list, dict, int, str) for value in (*task.params.values(), *task.inputs.values())
    )


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ('["${{ a.v }}", --, "${{ b.v }}"]', ("0", "3", "--", "0", "30")),
        ('["${{ a.v }}", "${{ sum(b.v) }}"]', ("0", "2", "3", "40")),
        ('["${{ join(a.v, \',\') }}", "x=${{ b.v }}"]', ("0,3", "x=[0, 30]")),
    ],
)
def test_the_words_of_a_command_are_joined_too(workspace: Path, command: str, words: tuple[str, ...]) -> None:
    assert paired(workspace, f"  fit: {{command: {command}}}").ready("fit")[0].command == words


def test_expressions_go_on_with_as_much_as_an_input_that_gathers_from_the_same_stage(workspace: Path) -> None:
    reader = "  fit: {command: [fit], inputs: {q: {from: b.v, min_success: 0.5}}, params: {x: '${{ b.x }}', n: '${{ sum(b.v) }}'}}"
    (task,) = paired(workspace, reader, 0).ready("fit").values()
    assert (task.inputs, task.params) == ({"q": [10, 30]}, {"x": [1, 3], "n": 40})


@pytest.mark.parametrize(
    ("reader", "of"),
    [
        ("inputs: {p: a.v, q: b.v}", ["inputs.p", "inputs.q"]),
        ("params: {e: '${{ mean(a.v - b.v) }}'}", ["a.v", "b.v"]),
        ("params: {e: '${{ a.v * b.v }}'}", ["a.v", "b.v"]),
        ("inputs: {p: a.v, q: b.v}, params: {n: '${{ sum(b.v) }}'}", ["inputs.p", "inputs.q"]),
    ],
)
def test_points_that_are_left_out_are_told_with_what_has_them_and_the_edge_that_lacks_them(
    workspace: Path, reader: str, of: list[str]
) -> None:
    study = paired(workspace, f"  fit: {{command: [fit], {reader}}}")
    study.ready("fit")
    left = [
        {"edges": ["a.v"], "of": of[1:], "number": 1, "points": [{"x": 1}]},
        {"edges": ["b.v"], "of": of[:1], "number": 1, "points": [{"x": 2}]},
    ]
    assert study.bench.ledger.history.stages["fit"].joined == {0: left}


@pytest.mark.parametrize(("share", "state"), [(0.7, "skipped"), (0.5, "ready")])
def test_a_joined_set_that_is_too_small_skips_the_reader(workspace: Path, share: float, state: str) -> None:
    """Of the two points that no `when` left out, one is there; each edge alone has enough."""
    reader = f"  fit: {{command: [fit], inputs: {{p: a.v, q: {{from: b.v, min_success: {share}}}}}}}"
    study = paired(workspace, reader, 3)
    study.ready("fit")
    assert study.state("fit").label == state
    lacking = study.bench.stages.recipes["fit"].meeting.lacking(0)
    text = "a.v and b.v have 1 of 2 points in common, and `min_success` asks for 2"
    assert lacking is None if state == "ready" else lacking is not None and lacking.text == text


def test_a_key_depends_on_the_points_and_not_on_what_fell_away(workspace: Path) -> None:
    """The same values at other points are other pairs."""
    text = """
    axes: {{x: {{range: 3}}}}
    stages:
      a: {{over: [x], when: x != {a}, command: [a], outputs: {{v: {{value: int}}}}}}
      b: {{over: [x], when: x != {b}, command: [b], outputs: {{v: {{value: int}}}}}}
      fit: {{command: [fit], {reader}}}
    """
    for reader, differ in (
        ("inputs: {p: a.v, q: b.v}", True),
        ("params: {p: '${{ a.v }}', q: '${{ b.v }}'}", True),
        ("inputs: {p: a.v}", False),
    ):
        keys = set()
        for number, (a, b) in enumerate([(0, 1), (1, 2)]):
            folder = workspace / f"{len(reader)}-{number}"
            folder.mkdir()
            study = Study(folder, text.format(a=a, b=b, reader=reader))
            study.end("a", dict(zip((x for x in range(3) if x != a), (5, 6), strict=True)))
            study.end("b", dict(zip((x for x in range(3) if x != b), (5, 6), strict=True)))
            keys.add(study.ready("fit")[0].key)
        assert (len(keys) == 2) is differ


def test_columns_that_share_no_point_are_refused(workspace: Path) -> None:
    reader = "  fit: {command: [fit], params: {columns: {p: '${{ a.v[:1] }}', q: '${{ a.v[1:] }}'}}}"
    study = paired(workspace, reader)
    study.ready("fit")
    assert "no point is in all of them" in study.bench.ledger.history.failures[("fit", 0)]["message"]


def test_a_part_leaves_what_stands_beside_it_whole(workspace: Path) -> None:
    reader = """  fit:
    command: [fit]
    params: {all: "${{ a.v }}", part: "${{ a.v[:1] }}", rest: "${{ a.v[1:] }}", high: "${{ where(b.v, a.v > 2) }}"}
"""
    task = paired(workspace, reader).ready("fit")[0]
    assert task.params["part"] + task.params["rest"] == task.params["all"] == [0, 2, 3]
    assert task.params["high"] == [30]


def test_parts_that_are_written_otherwise_and_mean_the_same_are_joined(workspace: Path) -> None:
    reader = "  fit: {command: [fit], params: {p: '${{ a.v[:2] }}', q: '${{ b.v[0:2:1] }}'}}"
    task = paired(workspace, reader).ready("fit")[0]
    assert (task.params["p"], task.params["q"]) == ([0], [0])


# --- random studies, against pandas -------------------------------------------------------------------


class Draw:
    """A random study: two stages over some axes in any order, and a third that reads both."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.sizes = {axis: draw.randint(1, 3) for axis in "xyz"[: draw.choice((2, 3))]}
        axes = list(self.sizes)
        self.own = draw.sample(axes, draw.randint(0, 1))
        several = [axis for axis in axes if axis not in self.own]
        gathered = draw.sample(several, draw.randint(1, len(several)))
        self.over = {}
        for name in "ab":
            extra = self.own if draw.random() < 0.7 else []
            self.over[name] = draw.sample([*gathered, *extra], len(gathered) + len(extra))
        if draw.random() < 0.2:
            self.over["b"] = draw.sample(axes, draw.randint(1, len(axes)))
        self.share = {name: draw.choice((1.0, 0.8, 0.5, 0.2)) for name in "ab"}
        self.outer = {name: draw.random() < 0.2 for name in "ab"}
        self.omitted = {name: self._some(draw, name, 0.2) for name in "ab"}
        self.failed = {name: self._some(draw, name, draw.choice((0.0, 0.15, 0.3))) for name in "ab"}

    def points(self, name: str) -> Iterator[tuple[int, ...]]:
        return product(*(range(self.sizes[axis]) for axis in self.over[name]))

    def _some(self, draw: random.Random, name: str, share: float) -> set[tuple[int, ...]]:
        return {point for point in self.points(name) if draw.random() < share}

    def gathers(self, name: str) -> list[str]:
        """The gathered axes, in the order of the file."""
        return [axis for axis in self.sizes if axis in self.over[name] and axis not in self.own]

    def text(self) -> str:
        lines = [
            f"axes: {{{', '.join(f'{axis}: {{range: {n}}}' for axis, n in self.sizes.items())}}}",
            "stages:",
        ]
        for name, over in self.over.items():
            at = [
                " and ".join(f"{a} == {i}" for a, i in zip(over, p, strict=True)) for p in self.omitted[name]
            ]
            when = f"not ({' or '.join(f'({one})' for one in at)})" if at else "true"
            lines.append(f"  {name}: {{over: [{', '.join(over)}], when: '{when}', command: [run], ")
            lines.append("    outputs: {v: {value: int}}}")
        lines.append(f"  fit: {{over: [{', '.join(self.own)}], command: [fit], inputs: {{")
        for name in "ab":
            more = f", min_success: {self.share[name]}" if self.gathers(name) else ""
            more += ", missing: null" if self.outer[name] and self.gathers(name) else ""
            lines.append(f"    {name}: {{from: {name}.v{more}}},")
        return "\n".join([*lines, "  }}"])

    def table(self, name: str) -> pd.DataFrame:
        """Every point of a stage with its value, and how it ended."""
        rows = []
        for number, point in enumerate(self.points(name)):
            end = (
                "omitted" if point in self.omitted[name] else "bad" if point in self.failed[name] else "good"
            )
            rows.append([*point, 100 * "ab".index(name) + number, end])
        return pd.DataFrame(rows, columns=[*self.over[name], name, f"end_{name}"])

    def expected(self, task: dict[str, int]) -> dict[str, Any] | str:
        """What a task of `fit` gets, by pandas; `skipped` where it gets nothing."""
        tables, shares = {}, {}
        for name in "ab":
            table = self.table(name)
            for axis in self.own:
                table = table[table[axis] == task[axis]] if axis in self.over[name] else table
            ends = table[f"end_{name}"].value_counts()
            share = self.share[name] if self.gathers(name) else 1.0
            meant = len(table) - ends.get("omitted", 0)
            if ends.get("good", 0) < share * meant - 1e-9 or (not self.gathers(name) and not meant):
                return "skipped"
            tables[name], shares[name] = table, share
        held = {n: t[t[f"end_{n}"] == "good"] if not self.outer[n] else t for n, t in tables.items()}
        axes = self.gathers("a")
        if axes != self.gathers("b") or not axes:
            return {name: self.listed(name, held[name]) for name in "ab"}
        both = held["a"].merge(held["b"], on=axes, how="inner")
        meant = [t[t[f"end_{n}"] != "omitted"] if not self.outer[n] else t for n, t in tables.items()]
        if len(both) < min(shares.values()) * len(meant[0].merge(meant[1], on=axes)) - 1e-9:
            return "skipped"
        return {name: self.listed(name, both.sort_values(axes)) for name in "ab"}

    def listed(self, name: str, table: pd.DataFrame) -> Any:
        axes = self.gathers(name)
        table = table.sort_values(axes) if axes else table
        ends = zip(table[name], table[f"end_{name}"], strict=True)
        values = [int(value) if end == "good" else None for value, end in ends]
        return values if axes else values[0]


def check_study(folder: Path, seed: int) -> None:
    drawn = Draw(seed)
    study = Study(folder, drawn.text())
    for name in "ab":
        places = list(drawn.points(name))
        failed = [i for i, point in enumerate(places) if point in drawn.failed[name]]
        study.end(name, {i: 100 * "ab".index(name) + i for i in range(len(places))}, *failed)
    tasks = study.ready("fit")
    for index in range(study.bench.stages.runs["fit"].size):
        expected = drawn.expected(study.bench.stages.runs["fit"].point(index))
        assert (tasks[index].inputs if index in tasks else study.state("fit", index).label) == expected, (
            drawn.text()
        )


@pytest.mark.parametrize("seed", range(12))
def test_random_studies_give_what_pandas_gives(workspace: Path, seed: int) -> None:
    check_study(workspace, seed)


# --- groups that are empty, branches that are not taken --------------------------------------------------

EMPTY = """
hyperparameters: {fine: {type: bool, default: true}}
axes: {s: {range: 2}, i: {range: 3}}
stages:
  a: {over: [s, i], when: s == 1, command: [a], outputs: {v: {value: int}}}
  low: {when: not hp.fine, command: [low], outputs: {v: {value: int}}}
  high: {when: hp.fine, command: [high], outputs: {v: {value: int}}}
"""


@pytest.mark.parametrize(
    ("reader", "states"),
    [
        ("over: [s], params: {p: '${{ sum(a.v) }}'}", ["ready", "ready"]),
        ("over: [s, i], params: {p: '${{ a.v }}'}", ["skipped"] * 3 + ["ready"] * 3),
        ("over: [s], after: [a]", ["ready", "ready"]),
        ("params: {p: '${{ high.v if hp.fine else low.v }}'}", ["ready"]),
        ("params: {p: '${{ low.v if hp.fine else 1 }}'}", ["skipped"]),
        ("params: {p: '${{ 1 if hp.fine else low.v }}'}", ["ready"]),
        ("params: {p: '${{ 1 if hp.fine else low.v }}', q: '${{ low.v }}'}", ["skipped"]),
        ("when: hp.fine or low.v > 1", ["ready"]),
    ],
)
def test_what_is_left_out_holds_back_only_those_that_need_it(
    workspace: Path, reader: str, states: list[str]
) -> None:
    study = Study(workspace, EMPTY + f"  fit: {{command: [fit], {reader}}}")
    study.end("a", {index: index for index in range(6)})
    study.end("low", {0: 1})
    study.end("high", {0: 2})
    tasks = study.ready("fit")
    assert [study.state("fit", index).label for index in range(len(states))] == states
    if "sum" in reader:
        assert [task.params["p"] for task in tasks.values()] == [0, 12]


def test_a_branch_waits_only_for_what_it_reads_and_its_key_has_no_more(workspace: Path) -> None:
    text = EMPTY.replace("when: not hp.fine, ", "").replace("when: hp.fine, ", "")
    keys = []
    for low in (1, 2):
        folder = workspace / str(low)
        folder.mkdir()
        reader = "  fit: {command: [fit], params: {p: '${{ high.v if hp.fine else low.v }}'}}"
        study = Study(folder, text + reader)
        assert study.ready("fit") == {}
        study.end("high", {0: 5})
        (task,) = study.ready("fit").values()
        assert task.params == {"p": 5}
        study.end("low", {0: low})
        keys.append((task.key, study.bench.resolve("fit").key))
    assert len({key for both in keys for key in both}) == 1
