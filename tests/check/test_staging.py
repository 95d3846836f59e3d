"""What is to be on a node's disk or shared out is a file, and shared by tasks that can share it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.asking import checked, the_problem

FLOW = """
hyperparameters: {{h: {{type: int, default: 1}}}}
axes: {{a: {{values: [1, 2]}}, r: {{loop: {{max: 3}}}}}}
stages:
  up: {{command: [run], outputs: {{x: {{{output}}}}}}}
  down: {{command: [echo, "${{{{ inputs.x }}}}"], over: [{over}], inputs: {{x: {{from: {source}, {how}}}}}}}
"""


@pytest.mark.parametrize(
    ("output", "source", "how", "over", "message"),
    [
        ("value: int", "up.x", "stage: node", "a", "up.x is a value: there is no file to copy"),
        ("path: x", "hp.h", "stage: node", "a", "hp.h is a hyperparameter: there is no file to copy"),
        ("value: int", "up.x", "shard: task", "a", "up.x is one value: there is nothing to split"),
        ("path: x", "hp.h", "shard: task", "a", "hp.h is a hyperparameter: there is nothing to split"),
        ("path: x", "up.x", "shard: rank", "a", "a task of this stage is one process"),
        ("path: x", "up.x", "shard: task", "", "split by task, but the stage has one task"),
        ("path: x", "up.x", "shard: task", "r", "the points of 'r' come one by one (loop)"),
    ],
)
def test_what_cannot_be_brought_or_shared_out_is_refused(
    folder: Path, output: str, source: str, how: str, over: str, message: str
) -> None:
    text = FLOW.format(output=output, source=source, how=how, over=over)
    assert message in the_problem(folder, text).message


@pytest.mark.parametrize(
    ("down", "message"),
    [
        ("when: a != 1", ""),
        ("when: hp.h > 0 and params.p > 1, params: {p: '${{ a }}'}", ""),
        ("when: n.v > 1", "`when` reads n.v: how many tasks share an input is known too late"),
        ("when: params.p > 1, params: {p: '${{ n.v }}'}", "`when` reads n.v"),
        ("params: {p: '${{ m.v }}'}", "tasks that 'm' leaves out by `when` would read a share of the input"),
        ("params: {p: '${{ k.v }}'}", "tasks that 'k' leaves out by `when`"),
        ("params: {p: '${{ one.v }}'}", ""),
    ],
)
def test_shares_are_of_tasks_that_are_known_to_run(folder: Path, down: str, message: str) -> None:
    """`m` may leave tasks out, `k` reads it by a match; `one` is left out for all or for none."""
    text = """
    hyperparameters: {h: {type: int, default: 1}}
    axes: {a: {values: [1, 2]}}
    stages:
      up: {command: [run], outputs: {x: {path: x}}}
      one: {command: [run], when: hp.h > 1, outputs: {v: {value: int}}}
      n: {over: [a], command: [run], outputs: {v: {value: int}}}
      m: {over: [a], when: a != 1, command: [run], outputs: {v: {value: int}}}
      k: {over: [a], inputs: {v: m.v}, command: [run], outputs: {v: {value: int}}}
      down: {over: [a], command: [run], inputs: {x: {from: up.x, shard: task}}, DOWN}
    """.replace("DOWN", down)
    if message:
        assert message in the_problem(folder, text).message
    else:
        checked(folder, text)


@pytest.mark.parametrize("how", ["stage: node", "shard: task"])
def test_a_file_can_be_brought_and_shared_out(folder: Path, how: str) -> None:
    checked(folder, FLOW.format(output="path: x", source="up.x", how=how, over="a"))


def test_a_task_on_several_disks_drains_none_of_them(folder: Path) -> None:
    outputs = "outputs: {x: {path: x, drain: true}}"
    text = f"stages:\n  a: {{command: [run], resources: {{ranks: 4, nodes: 2}}, {outputs}}}\n"
    assert "a task on whole nodes has several disks" in the_problem(folder, text).message
