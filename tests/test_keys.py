"""What a result is found again by: all that its task can read, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.throwaway import Project

NAMED = """
    stages:
      make: {command: 'mkdir -p d; echo x > d/FIRST; echo x > d/SECOND', outputs: {one: d/FIRST, all: {glob: "d/*"}}}
      one: {command: 'basename ${{ make.one }} > n', outputs: {n: n}}
      all: {command: 'basename -a ${{ make.all }} > n', outputs: {n: n}}
      text: {command: cat t, files: {t: {template: t}}, inputs: {one: make.one}}
      file: {command: 'basename ${{ files.f }} > n', files: {f: FIRST}, outputs: {n: n}}
      own: {over: [p], command: 'basename ${{ files.f }} > n', files: {f: "${{ p }}/f"}, outputs: {n: n}}
    axes: {p: {values: [p]}}
"""


def test_a_reader_of_the_same_bytes_under_another_name_is_another_task(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "t").write_text("${{ inputs.one }}")
    (tmp_path / "p").mkdir()
    for name in ("s1.xyz", "s2.xyz", "s3.xyz", "p/f1"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / "p" / "f").symlink_to("f1")
    project.workflow(NAMED.replace("FIRST", "s1.xyz").replace("SECOND", "s2.xyz")).run()
    assert {*project.run().counts("one")} == {"cached"}
    (tmp_path / "p" / "f").unlink()
    (tmp_path / "p" / "f1").rename(tmp_path / "p" / "f")
    run = project.workflow(NAMED.replace("FIRST", "s3.xyz").replace("SECOND", "s2.xyz")).run()
    found = {name: run.artifact(name, "n").read_text().split() for name in ("one", "all", "file", "own")}
    assert found == {"one": ["s3.xyz"], "all": ["s2.xyz", "s3.xyz"], "file": ["s3.xyz"], "own": ["f"]}
    assert {*run.counts("text")} == {"done"}


def test_a_project_that_moved_finds_its_results(tmp_path: Path) -> None:
    project = Project(tmp_path / "here" / "work")
    data = tmp_path / "here" / "data"
    data.mkdir()
    (data / "f").write_text("x")
    project.workflow("stages: {s: {command: 'cat ${{ files.f }}', files: {f: ../data/f}}}").run()
    (tmp_path / "here").rename(tmp_path / "there")
    assert Project(tmp_path / "there" / "work").run().counts("s") == {"cached": 1}


def test_directories_behind_links_are_read_and_exported(tmp_path: Path) -> None:
    project = Project(tmp_path / "work")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "x").write_text("1")
    (tmp_path / "work" / "data").mkdir()
    (tmp_path / "work" / "data" / "far").symlink_to("../../far")
    project.workflow("""
        stages:
          read: {command: 'cat ${{ files.d }}/far/x > x', files: {d: data}, outputs: {x: x}}
          make:
            command: 'mkdir -p o/step9 o/none; cp ${{ inputs.x }} o/step9/x; ln -s step9 o/last; ln -s gone o/lost; ln -s .. o/up'
            inputs: {x: read.x}
            outputs: {o: {path: o, export: out}}
    """).run()
    out = tmp_path / "work" / "out"
    assert (out / "last" / "x").read_text() == "1"
    assert [os.readlink(out / name) for name in ("last", "lost", "up")] == ["step9", "gone", ".."]
    assert (out / "none").is_dir()
    (tmp_path / "far" / "x").write_text("2")
    assert project.run().counts("read") == {"done": 1}
    assert (out / "last" / "x").read_text() == "2"
    assert not (out / "last" / "last").exists()


@pytest.mark.parametrize("stage", ["file", "made"])
def test_a_script_that_can_no_longer_be_executed_is_another_file(tmp_path: Path, stage: str) -> None:
    project = Project(tmp_path)
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\necho x\n")
    script.chmod(0o755)
    project.workflow("""
        stages:
          copy: {command: 'cp -p ${{ files.s }} s', files: {s: script}, outputs: {s: s}}
          made: {command: '${{ copy.s }}'}
          file: {command: '${{ files.s }}', files: {s: script}}
    """).run()
    script.chmod(0o644)
    assert project.run(code=1).counts(stage) == {"failed": 1}
    script.chmod(0o711)
    assert project.run().counts(stage) == {"cached": 1}


HISTOGRAM = "{module: 'numpy:histogram', params: {a: [1, 2, 2, 3, 9], bins: 2}, outputs: {NAMES}}"
LOG = "{module: 'math:log', over: [t], params: {NAMES}}"
PARAMS = "{command: 'cp $DIEL_PARAMS p', params: {NAMES}, outputs: {p: p}}"
INPUTS = "{command: 'cp $DIEL_INPUTS p', inputs: {NAMES}, outputs: {p: p}}"
POINT = "{command: 'cp $DIEL_PARAMS p', over: [NAMES], outputs: {p: p}}"
ORDERS = [
    (
        HISTOGRAM,
        "edges: {}, counts: {}",
        "counts: {}, edges: {}",
        "outputs.edges, outputs.counts → outputs.counts",
    ),
    (
        LOG,
        'number: "${{ 8.0 * t }}", base: 2.0',
        'base: 2.0, number: "${{ 8.0 * t }}"',
        "params.number, params.base →",
    ),
    (PARAMS, "a: 1, b: 2", "b: 2, a: 1", "params.a, params.b → params.b, params.a"),
    (PARAMS, "m: {a: 1, b: 2}", "m: {b: 2, a: 1}", 'params.m: {"a": 1, "b": 2} → {"b": 2, "a": 1}'),
    (INPUTS, "a: up.v, b: up.w", "b: up.w, a: up.v", "inputs are in another order: a, b → b, a"),
    (POINT, "t, u", "u, t", "values are in another order: t, u → u, t"),
]
"""A stage, names in it, the same in another order, and what `diel explain` says of it."""


@pytest.mark.parametrize(("stage", "names", "others", "words"), ORDERS)
def test_names_in_another_order_make_another_task(
    tmp_path: Path, stage: str, names: str, others: str, words: str
) -> None:
    workflow = f"""
        axes: {{t: {{values: [1]}}, u: {{values: [2]}}}}
        stages:
          up:
            command: "echo '{{\\"v\\": 1, \\"w\\": 2}}' > $DIEL_RESULT"
            outputs: {{v: {{value: int}}, w: {{value: int}}}}
          h: {stage}
    """
    project = Project(tmp_path)
    project.workflow(workflow.replace("NAMES", names)).run()
    assert project.run().counts("h") == {"cached": 1}
    run = project.workflow(workflow.replace("NAMES", others)).run()
    assert (run.counts("h"), run.counts("up")) == ({"done": 1}, {"cached": 1})
    assert words in project.diel("explain", run.id, "h/0")
    assert project.run().counts("h") == {"cached": 1}


def test_variables_and_a_command_s_outputs_have_no_order(tmp_path: Path) -> None:
    project = Project(tmp_path)
    text = "stages: {h: {command: 'touch a b', env: {ENV}, outputs: {OUT}}}"
    project.workflow(text.replace("ENV", "A: 1, B: 2").replace("OUT", "a: a, b: b")).run()
    run = project.workflow(text.replace("ENV", "B: 2, A: 1").replace("OUT", "b: b, a: a")).run()
    assert run.counts("h") == {"cached": 1}


NAMES = """
    @diel.module(kind="analysis")
    def names(row: dict) -> dict:
        return {"k": ",".join(row)}
"""


def test_points_that_differ_in_the_order_of_keys_have_results_of_their_own(tmp_path: Path) -> None:
    project = (
        Project(tmp_path)
        .module("names", NAMES)
        .workflow("""
        axes: {row: {values: [{a: 1, b: 2}, {b: 2, a: 1}]}}
        stages: {h: {over: [row], module: names}}
    """)
    )
    assert project.run().values("h", "k") == ["a,b", "b,a"]
    run = project.run()
    assert (run.counts("h"), run.values("h", "k")) == ({"cached": 2}, ["a,b", "b,a"])


def test_readers_of_a_mapping_in_another_order_are_computed_again(tmp_path: Path) -> None:
    """Also in a run that goes on once a file is gone."""
    project = (
        Project(tmp_path)
        .module("names", NAMES)
        .workflow("""
        stages:
          make: {command: 'cat ../../../../../row > $DIEL_RESULT; touch f', outputs: {row: {value: dict}, f: f}}
          head: {module: names, inputs: {row: make.row}}
          last: {command: 'cat ${{ make.f }} ../../../../../go', inputs: {k: head.k}}
    """)
    )
    (tmp_path / "row").write_text('{"row": {"x": 1, "y": 2}}')
    run = project.run(code=1)
    (tmp_path / "row").write_text('{"row": {"y": 2, "x": 1}}')
    (tmp_path / "go").touch()
    run.task_dir("make").joinpath("f").unlink()
    project.diel("resume")
    assert [record["values"]["k"] for record in run.records("done", "head")] == ["x,y", "y,x"]
