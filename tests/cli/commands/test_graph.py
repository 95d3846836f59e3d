"""`diel graph`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import pytest

from tests.cli.call import call
from tests.handmade import Handmade
from tests.searched import loop

Capture = pytest.CaptureFixture[str]
FLOW = """
axes: {t: {range: 1200}}
stages:
  sim: {kind: simulation, over: [t], command: [x], outputs: {e: {value: float}}}
  end: {command: [x], inputs: {e: sim.e}}
"""


@pytest.fixture
def flow(workspace: Path) -> Path:
    path = workspace / "w.yaml"
    path.write_text("diel: 1\nname: w\n" + FLOW)
    return path


def test_a_file_is_drawn_with_its_kinds_tasks_axes_and_rules(flow: Path, capsys: Capture) -> None:
    said = call(capsys, "graph", "w.yaml")
    assert said.code == 0
    assert said.out.splitlines() == [
        "●  sim  simulation  1,200 tasks  t (1,200)",
        "│",
        "●  end  analysis    1 task",
        "     ← sim.e: gather t",
    ]


def test_a_run_is_drawn_with_how_its_stages_stand(workspace: Path, capsys: Capture) -> None:
    run = Handmade(workspace, FLOW).stage("sim", 1200, "simulation").stage("end", 1)
    run.done("sim", 0).failed("sim", 1).skipped("end", 0, cause="sim")
    run.end("failed")
    lines = call(capsys, "graph").out.splitlines()
    assert lines[0] == "✗  sim  simulation  1/1,200 done, 1 failed  t"
    assert lines[2] == "–  end  analysis    0/1 done, 1 skipped"


def test_searches_and_loops_are_told_in_a_file_and_in_a_run(workspace: Path, capsys: Capture) -> None:
    run = loop(workspace, over=True)
    said = call(capsys, "graph", "w-1").out
    (line,) = [line for line in said.splitlines() if " check " in line]
    assert line.split()[-5:] == ["analysis", "3/3", "done", "round", "(loop)"]
    (workspace / "flow.yaml").write_text(run.paths.workflow.read_text())
    said = call(capsys, "graph", "flow.yaml").out
    assert "up to 100 tasks" in said
    assert "round (loop, up to 100)" in said
    assert "⇠ check.error: pick round = previous (of the previous round)" in said


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        (["--format", "mermaid"], "flowchart TD"),
        (["--format", "dot"], 'digraph "w" {'),
        (["-o", "w.mmd"], "flowchart TD"),
        (["-o", "w.dot"], 'digraph "w" {'),
        (["-o", "w.txt"], "●"),
        (["-o", "w.svg", "--format", "dot"], 'digraph "w" {'),
    ],
)
def test_the_format_is_as_said_or_by_the_file_s_ending(
    flow: Path, capsys: Capture, words: list[str], begins: str
) -> None:
    said = call(capsys, "graph", "w.yaml", *words)
    assert said.code == 0
    text = Path(words[1]).read_text("utf-8") if words[0] == "-o" else said.out
    assert text.startswith(begins)


@pytest.mark.parametrize(
    ("form", "read"),
    [
        ("graphml", networkx.read_graphml),
        ("gexf", networkx.read_gexf),
        ("json", lambda path: networkx.node_link_graph(json.loads(Path(path).read_text("utf-8")))),
    ],
)
def test_programs_that_read_graphs_get_stages_with_states_and_times(
    workspace: Path, capsys: Capture, form: str, read: Callable[[str], Any]
) -> None:
    run = Handmade(workspace, FLOW).stage("sim", 1200, "simulation").stage("end", 1)
    run.done("sim", 0, e=1.0).failed("sim", 1).skipped("end", 0, cause="sim")
    run.end("failed")
    assert call(capsys, "graph", "w-1", "-o", f"w.{form}").code == 0
    network = read(f"w.{form}")
    assert set(network) == {"sim", "end"}
    stage = network.nodes["sim"]
    assert (stage["kind"], stage["axes"], stage["state"], stage["done"]) == ("simulation", "t", "failed", 1)
    assert stage["began"] <= stage["ended"]
    assert stage["seconds"] >= 0
    assert network.edges["sim", "end"]["outputs"] == "e"
    assert network.edges["sim", "end"]["rule"] == "gather t"
    assert call(capsys, "graph", "w-1", "--format", form).out == Path(f"w.{form}").read_text("utf-8")


def test_a_loop_reads_its_round_before_in_the_graph_of_a_file_too(workspace: Path, capsys: Capture) -> None:
    run = loop(workspace, over=True)
    (workspace / "flow.yaml").write_text(run.paths.workflow.read_text())
    for target in ("w-1", "flow.yaml"):
        network = networkx.node_link_graph(json.loads(call(capsys, "graph", target, "--format", "json").out))
        before = [edge for *edge, previous in network.edges(data="previous") if previous]
        assert before
        assert networkx.is_directed_acyclic_graph(networkx.restricted_view(network, [], before))


def test_svg_without_graphviz_fails_with_what_to_install(
    flow: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    said = call(capsys, "graph", "w.yaml", "-o", "w.svg")
    assert said.code == 1
    assert "apt install graphviz" in said.err
    assert not Path("w.svg").exists()


def test_a_wrong_file_a_run_that_is_not_there_and_an_unwritable_place_are_told(
    flow: Path, capsys: Capture
) -> None:
    assert "no such file" in call(capsys, "graph", "v.yaml").err
    assert "no run 'v'" in call(capsys, "graph", "v").err
    said = call(capsys, "graph", "w.yaml", "-o", "no/where.dot")
    assert (said.code, "cannot write no/where.dot" in said.err) == (1, True)
