"""Drawings: what leads where is there in each, and any name is quoted right."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from diel.base.errors import DielError
from diel.workflow.drawing import (
    Arrow,
    Drawing,
    Node,
    axis_text,
    draw_dot,
    draw_mermaid,
    draw_svg,
    draw_text,
    make_drawing,
)
from diel.workflow.graph import build
from diel.workflow.load import load_text

FLOW = """\
diel: 1
name: flow
axes:
  t: {values: [1, 2]}
  r: {values: [a, b]}
  state: {zip: {p: [1, 2], q: [3, 4]}}
  best: {from: screen.found}
stages:
  sim: {over: [t], command: [x], outputs: {e: {value: int}, f: {value: int}}}
  held: {over: [state], command: [x], outputs: {e: {value: int}}}
  train: {over: [r], command: [x], inputs: {e: sim.e, f: sim.f}, outputs: {m: {value: int}}}
  screen:
    over: [r, t]
    command: [x]
    inputs: {m: train.m, e: sim.e, h: {from: held.e, at: {state: {p: 2}}}}
    outputs: {found: {value: list}}
  end: {over: [best], command: [x], after: [held]}
"""


def drawing(text: str = FLOW, state: str = "") -> Drawing:
    spec = load_text(text, Path("flow.yaml")).spec
    graph, flaws = build(spec)
    assert not flaws
    nodes = {
        name: Node(name, "analysis", stage.over, "2 tasks", state) for name, stage in spec.stages.items()
    }
    return make_drawing(graph, nodes)


def test_each_arrow_names_outputs_and_the_rule_by_which_they_move() -> None:
    labels = {(arrow.upstream, arrow.downstream): arrow.label for arrow in drawing().arrows}
    assert labels == {
        ("sim", "train"): "e, f: gather t, broadcast over r",
        ("train", "screen"): "m: match r, broadcast over t",
        ("sim", "screen"): "e: match t, broadcast over r",
        ("held", "screen"): "e: pick p = 2, broadcast over r × t",
        ("screen", "end"): "found: axis best, gather t × r",
        ("held", "end"): "order: gather state, broadcast over best",
    }


def test_the_text_drawing_leads_each_stage_down_to_the_last_that_reads_it() -> None:
    lines = [line.rstrip() for line in draw_text(drawing()).splitlines()]
    rails = [re.split(r"  +[a-z←]", line)[0].rstrip() for line in lines]
    assert rails == [
        "●",
        "│",
        "│ ●",
        "│ │",
        "├─│─●",
        "│ │ │",
        "│ │ │",
        "●─┼─┘",
        "│ │",
        "│ │",
        "│ │",
        "│ │",
        "●─┘",
        "",
        "",
    ]
    assert lines[4].split() == ["├─│─●", "train", "analysis", "2", "tasks", "r"]
    assert lines[5].endswith("← sim.e, f: gather t, broadcast over r")


def test_every_stage_and_every_arrow_is_in_the_text_of_a_wide_graph() -> None:
    stages = "".join(
        f"  s{n}: {{command: [x], after: [{', '.join(f's{m}' for m in range(max(0, n - 3), n))}]}}\n"
        for n in range(30)
    )
    made = drawing(f"diel: 1\nname: flow\nstages:\n{stages}")
    text = draw_text(made)
    assert [word for word in text.split() if re.fullmatch(r"s\d+", word)].count("s29") == 1
    assert text.count("← after") == len(made.arrows) == 84
    assert max(map(len, text.splitlines())) < 80


def test_the_text_drawing_can_do_with_ascii_alone() -> None:
    text = draw_text(drawing(), ascii_only=True)
    assert text.isascii()
    assert "+-|-*" in text


def test_a_run_s_stages_are_marked_and_painted_by_their_state() -> None:
    painted: list[tuple[str, str]] = []

    def paint(text: str, state: str) -> str:
        painted.append((text.strip(), state))
        return text

    text = draw_text(drawing(state="failed"), paint)
    assert text.count("✗") == 5
    assert painted[0] == ("✗", "failed")


def test_an_empty_drawing_is_empty() -> None:
    assert draw_text(Drawing("none", (), ())) == ""


# --- mermaid and dot ------------------------------------------------------------------------------

NASTY = Drawing(
    'a "name"\\ with\nall',
    (
        Node("end", "analysis", ("x",), "1 task", "done"),
        Node("class", "analysis", (), "1 task", "failed"),
    ),
    (Arrow("end", "class", ("o",), 'pick k = "<b>#1`"'), Arrow("end", "class", (), "")),
)


def test_mermaid_keeps_its_own_words_and_signs_out_of_names_and_labels() -> None:
    lines = draw_mermaid(NASTY).splitlines()
    assert lines[0] == "flowchart TD"
    assert '    s_end["end<br/>analysis · 1 task<br/>x"]:::done' in lines
    assert '    s_end -->|"o: pick k = #quot;#lt;b#gt;#35;1#96;#quot;"| s_class' in lines
    assert '    s_end -.->|"order"| s_class' in lines
    assert any(line.startswith("    classDef failed ") for line in lines)


def test_dot_quotes_what_would_end_a_string() -> None:
    text = draw_dot(NASTY)
    assert text.startswith('digraph "a \\"name\\"\\\\ with\\nall" {')
    assert '"end" -> "class" [label="o: pick k = \\"<b>#1`\\""];' in text
    assert '"end" -> "class" [label="order", style=dashed];' in text


def fake_dot(folder: Path, script: str) -> None:
    program = folder / "dot"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_svg_is_what_graphviz_makes_of_the_dot_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_dot(tmp_path, 'echo "$1"; /bin/cat')
    monkeypatch.setenv("PATH", str(tmp_path))
    assert draw_svg(NASTY) == f"-Tsvg\n{draw_dot(NASTY)}"


def test_svg_tells_what_graphviz_said_when_it_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_dot(tmp_path, "/bin/cat > /dev/null; echo 'syntax error near x' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DielError, match="syntax error near x"):
        draw_svg(NASTY)


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not here; the text is tested above")
def test_graphviz_itself_takes_any_name_and_draws_every_stage() -> None:
    tree = ElementTree.fromstring(draw_svg(NASTY))
    titles = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}title")]
    assert {"end", "class"} <= set(titles)


ADAPTIVE = """\
diel: 1
name: flow
hyperparameters: {x: {type: float, low: 0, high: 1}}
axes:
  round: {loop: {max: 10, until: "${{ keep.e < 0.1 }}"}}
  trial: {search: {trials: 4, minimize: f.e, parameters: [x]}}
stages:
  f:
    over: [round, trial]
    command: [x]
    inputs: {c: {from: keep.e, at: {round: previous}, initially: 1.0}}
    outputs: {e: {value: float}}
  keep:
    over: [round]
    command: [x]
    inputs: {e: {from: f.e, at: {trial: best}}, x: {from: hp.x, at: {trial: best}}}
    outputs: {e: {value: float}}
  end: {command: [x], inputs: {e: {from: keep.e, at: {round: last}}}}
"""


def test_what_is_picked_of_searches_and_loops_is_told() -> None:
    labels = {(arrow.upstream, arrow.downstream): arrow.label for arrow in drawing(ADAPTIVE).arrows}
    assert labels == {
        ("keep", "f"): "e: pick round = previous, broadcast over trial",
        ("f", "keep"): "e, hp.x: match round, pick trial = best",
        ("keep", "end"): "e: pick round = last",
    }


def test_an_edge_from_the_round_before_leads_back_and_is_dashed() -> None:
    found = drawing(ADAPTIVE)
    assert [(arrow.upstream, arrow.downstream) for arrow in found.arrows if arrow.back] == [("keep", "f")]
    text = draw_text(found)
    assert "⇠ keep.e: pick round = previous, broadcast over trial (of the previous round)" in text
    assert "← f.e, hp.x: match round" in text
    assert draw_text(found, ascii_only=True).isascii()
    assert 's_keep -.->|"e: pick round = previous' in draw_mermaid(found)
    assert 's_f -->|"e, hp.x' in draw_mermaid(found)
    back, *others = [line for line in draw_dot(found).splitlines() if " -> " in line]
    assert back.endswith("style=dashed, constraint=false];")
    assert not any("dashed" in line for line in others)


def test_searches_and_loops_are_labelled() -> None:
    axes = load_text(ADAPTIVE, Path("flow.yaml")).spec.axes
    assert axis_text("round", axes["round"], "10") == "round (loop, up to 10)"
    assert axis_text("trial", axes["trial"], "4") == "trial (search, 4)"
    assert axis_text("trial", axes["trial"]) == "trial (search)"
    assert axis_text("t", load_text(FLOW, Path("flow.yaml")).spec.axes["t"], "2") == "t (2)"
