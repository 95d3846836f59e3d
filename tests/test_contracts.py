"""Contracts and artifacts in whole runs: what is promised, handed on, and deleted after use."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.throwaway import Project

MODULES = """
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

@diel.module(kind="simulation")
def make(i: int) -> dict:
    return {"x": np.full((1000, 3), i, dtype=np.float32), "table": write(i)}

def write(i: int) -> Path:
    Path("t.csv").write_text("t,p\\n" + "1.5,%s\\n" % ("oops" if i == 2 and not Path("../../../../../mended").exists() else "2.5"))
    return Path("t.csv")

@diel.module(kind="analysis")
def same(x: NDArray[np.float32]) -> dict:
    return {"x": x, "sum": float(x.sum()), "kind": type(x).__name__}

@diel.module(kind="analysis")
def gather(xs: list[np.ndarray], tables: list[Path]) -> dict:
    return {"shape": list(np.stack(xs).shape), "names": [path.name for path in tables]}
"""
FLOW = """
axes: {i: {range: 3}}
stages:
  make:
    module: "m:make"
    over: [i]
    outputs:
      x: {dtype: float32, shape: ["*", 3], units: K, finite: true, keep: false}
      table: {columns: {t: float, p: float}, rows: ">=1"}
  same: {module: "m:same", over: [i], inputs: {x: {from: make.x, dtype: float32, units: K}}}
  gather: {module: "m:gather", inputs: {xs: {from: same.x, min_success: 0.5}, tables: {from: make.table, min_success: 0.5}}}
  strict: {command: ["true"], after: [make]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path).module("m", MODULES).workflow(FLOW)


def test_arrays_are_handed_on_and_a_broken_promise_stops_its_task_alone(project: Project) -> None:
    run = project.run(code=1)
    told = "output 'table': t.csv, row 1 (line 2): p is 'oops'; expected float"
    assert (run.failure("make", 2)["class"], run.failure("make", 2)["message"]) == ("app", told)
    assert told in project.diel("status")
    assert told in project.diel("explain", "last", "make/2")
    assert run.counts("same") == {"done": 2, "skipped": 1}
    assert run.values("same", "sum") == [0.0, 3000.0]
    assert set(run.values("same", "kind")) == {"memmap"}
    assert run.value("gather", "shape") == [2, 1000, 3]
    assert run.value("gather", "names") == ["t.csv", "t.csv"]

    # `keep: false`: gone with its reader, and every command says so
    assert run.history().stages["make"].dropped == {"x": {0, 1}}
    assert not run.artifact("make", "x").exists()
    assert run.artifact("same", "x").stat().st_nlink == 1
    assert "'make.x' of 2 tasks was deleted after use" in project.diel("results", "last", "make.x")
    assert "deleted after use" in project.diel("explain", "last", "make/0")
    status = json.loads(project.diel("status", "--json"))
    assert status["stages"]["make"]["dropped"] == {"x": 2}

    # where the cause is mended, what failed runs again; what is gone is not missed
    (project.folder / "mended").touch()
    project.diel("resume", "last")
    assert run.history().stages["make"].dropped == {"x": {0, 1, 2}}
    assert run.attempts("make", 0) == [1]
    assert run.values("same", "sum") == [0.0, 3000.0, 6000.0]

    # what is left of the arrays goes by hand; results that nothing reads stay
    freed = project.diel("clean", "--intermediate", "--yes")
    assert "same.x" in freed
    assert "deleted 6 files, freed 35.6 KiB" in freed
    assert not run.artifact("same", "x").exists()
    assert "nothing to delete" in project.diel("clean", "--intermediate", "--yes")
    assert "same.x" in project.diel("results", "last")
    made = sorted(run.records("done", "gather"), key=lambda record: record["attempt"])
    assert [record["values"]["shape"] for record in made] == [[2, 1000, 3], [3, 1000, 3]], "of all three now"

    # the cache offers no result whose file is gone
    again = project.run()
    assert again.counts("make") == {"done": 3}


def test_a_commands_files_are_one_list_by_a_pattern_and_checked(project: Project) -> None:
    project.workflow(
        """
        stages:
          make:
            command: |
              mkdir frames
              for i in 3 1 2; do printf %s $i > frames/$i.xyz; done
              echo '{"energy": 1.5, "more": {"n": 3}}' > $DIEL_RESULT
              echo '{"n": 3}' > facts.json
            outputs:
              frames: {glob: "frames/*.xyz", files: ">=3", digest: stat}
              facts: {path: facts.json, json: {n: int}}
              energy: {value: float, finite: true, units: eV}
              more: {value: dict, json: {n: int}}
          use:
            command: "cat ${{ inputs.frames }}; cat $DIEL_INPUTS"
            inputs: {frames: make.frames, energy: {from: make.energy, units: eV}}
          broken:
            command: "echo '{}' > facts.json"
            outputs: {facts: {path: facts.json, json: {n: int}}}
        """
    )
    run = project.run(code=1)
    said = run.stdout("use")
    assert said.startswith("123{")
    assert [os.path.basename(path) for path in json.loads(said[3:])["frames"]] == ["1.xyz", "2.xyz", "3.xyz"]
    assert run.failure("broken")["message"] == "output 'facts': facts.json has no key 'n'; it has: nothing"
    assert "frames" in project.diel("results", "last", "make")
    again = project.run(code=1)
    assert again.counts("make") == again.counts("use") == {"cached": 1}
    run.artifact("make", "facts").unlink()
    (run.task_dir("make") / "frames" / "2.xyz").unlink()
    assert project.run(code=1).counts("make") == {"done": 1}


def test_what_a_loop_goes_on_from_is_not_deleted_between(project: Project) -> None:
    project.workflow(
        """
        axes: {r: {loop: {max: 3}}}
        stages:
          make:
            over: [r]
            inputs: {before: {from: make.state, at: {r: previous}, initially: none}}
            command: 'test ! -e "$DIEL_RUN_DIR/../../stop" || test ${{ r }} -lt 2; cat ${{ inputs.before }} >> state || true; echo ${{ r }} >> state'
            outputs: {state: state}
          use: {over: [r], inputs: {state: make.state}, command: 'cat ${{ inputs.state }}'}
        """
    )
    (project.folder / "stop").write_text("")
    run = project.run(code=1)
    assert "nothing to delete" in project.diel("clean", "--intermediate", "--yes")
    (project.folder / "stop").unlink()
    project.diel("resume")
    assert run.stdout("use", 2).split() == ["0", "1", "2"]
    assert "deleted 3 files" in project.diel("clean", "--intermediate", "--yes")


def test_output_named_as_a_parameter_is_one_or_the_other(tmp_path: Path) -> None:
    project = Project(tmp_path).module(
        "m",
        """
        from typing import TypedDict

        class Made(TypedDict, total=False):
            a: int

        def some(a):
            return {"a": 100 * a} if a % 2 else {}

        def annotated(a) -> Made:
            return some(a)

        def keywords(**own):
            return some(own["a"])

        def unread():
            return {"a": 100}

        def equal(a):
            return {"a": a} if a % 2 else {}

        def every(a):
            return {"a": 100 * a}

        def gather(v: list):
            return {"v": v}
        """,
    )
    stages = {
        "some": "", "annotated": "", "keywords": "", "unread": "", "equal": "",
        "some_declared": "outputs: {a: {}}, ", "every": "outputs: {a: {}}, ",
    }  # fmt: skip
    makers = [
        f"  {name}: {{over: [a], {more}module: m:{name.partition('_')[0]}}}" for name, more in stages.items()
    ]
    readers = [f"  of_{name}: {{module: m:gather, inputs: {{v: {name}.a}}}}" for name in stages]
    command = """  command: {over: [a], command: "echo '{\\"a\\": 1}' > $DIEL_RESULT"}"""
    project.workflow("\n".join(["axes: {a: {range: 3}}", "stages:", *makers, *readers, command]))
    project.diel("run", "flow.yaml", code=1)
    run, of_axes = (
        project.newest(),
        "'a' is a parameter of its axes, and an output of some tasks, with another value",
    )
    messages = {record["stage"]: record["message"].partition(";")[0] for record in run.records("fail")}
    assert messages == {
        **dict.fromkeys(["some", "keywords", "unread", "command", "annotated"], of_axes),
        "some_declared": "the module returned no 'a', which it promises",
    }
    assert len(run.records("fail", "command")) == 2, "an equal value is no other"
    done = [record for record in run.records("done") if record["stage"].startswith("of_")]
    read = {record["stage"]: record["values"]["v"] for record in done}
    assert read == {"of_equal": [0, 1, 2], "of_every": [0, 100, 200]}


def test_a_parameter_that_is_nan_is_no_other_value(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.module("m", "def twice(c, d):\n    return {'c': c, 'd': d, 'twice': 2 * c}")
    project.workflow("""
        axes: {c: {values: [.nan, 1.0]}, d: {values: [[1, .nan]]}}
        stages:
          silent: {over: [c], command: "echo ${{ c }}"}
          twice: {over: [c, d], module: m:twice}
    """)
    run = project.run()
    assert run.stdout("silent") == "nan\n"
    assert repr(run.values("twice", "c")) == "[nan, 1.0]"
