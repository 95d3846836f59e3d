"""What tasks do not get of gathers that meet in them is said in every view of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diel.status.joined import joined_lines
from tests.cli.call import call

FLOW = """
diel: 1
name: w
axes: {x: {range: 4}}
stages:
  a: {over: [x], when: x != 1, command: 'echo "{\\"v\\": ${{ x }}}" > $DIEL_RESULT', outputs: {v: {value: int}}}
  b: {over: [x], when: x != 2, command: 'echo "{\\"v\\": ${{ x }}}" > $DIEL_RESULT', outputs: {v: {value: int}}}
  fit: {command: 'cat $DIEL_INPUTS', inputs: {p: a.v, q: b.v}}
"""
TOLD = "joined without x=1, which a.v lacks; x=2, which b.v lacks"


def test_status_and_explain_say_which_points_were_left_out_and_for_which_edge(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "w.yaml").write_text(FLOW)
    assert TOLD in call(capsys, "run", "w.yaml").out
    several = (
        "status w-1",
        "status w-1 fit",
        "explain w-1",
        "explain w-1 fit",
        "explain w-1 fit/0",
        "report w-1",
    )
    for words in map(str.split, several):
        assert TOLD in call(capsys, *words).out, words
    left = json.loads(call(capsys, "status", "w-1", "fit", "--json").out)["left_out"]["0"]
    assert [(one["edges"], one["points"]) for one in left] == [(["a.v"], [{"x": 1}]), (["b.v"], [{"x": 2}])]
    told = json.loads(call(capsys, "explain", "w-1", "fit/0", "--json").out)
    assert told["left_out"] == left
    assert told["inputs"]["p"]["value"] == [0, 3]


def test_of_many_the_first_are_named() -> None:
    points = [{"x": number, "y": 1} for number in range(5)]
    left = [{"edges": ["a.v"], "number": 5, "points": points}]
    lines = joined_lines([("fit", dict.fromkeys(range(5), left))])
    assert len(lines) == 4
    assert (
        lines[0] == "fit/0 was joined without (x=0, y=1), (x=1, y=1), (x=2, y=1) and 2 more, which a.v lacks"
    )
    assert lines[-1] == "fit: 2 more tasks were joined without some points"
