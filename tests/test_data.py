"""Data of the field in whole runs: contracts, derived axes, units, tables that functions take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.throwaway import Project

for library in ("h5py", "pandas", "pint", "xarray"):
    pytest.importorskip(library, reason="diel[data] and diel[units] are not installed")

OWN = """
from __future__ import annotations
import h5py, numpy as np, pandas as pd

def table() -> pd.DataFrame:
    return pd.DataFrame({"energy": [1.0, 2.0], "t": [300, 400], "who": ["a", "b"]})

def read(t: pd.DataFrame) -> dict:
    return {"energy": t.energy.tolist(), "t": t.t.tolist()}

def read_store(x: np.ndarray, rows: pd.DataFrame) -> dict:
    return {"x": x.tolist(), "n": rows.n.tolist()}

def samples() -> np.ndarray:
    return np.array([[0.25, 2.0], [0.75, 4.0]])

def tables(ts: list[pd.DataFrame]) -> int:
    return sum(len(t) for t in ts)
"""
FLOW = """
axes:
  i: {range: 2}
  row: {from: store.rows}
  pair: {from: table.result, columns: [t]}
  draw: {from: samples.result, columns: [X0, X1]}
stages:
  make:
    over: [i]
    command: echo "{\\"e\\":" ${{ i + 1 }} "}" > $DIEL_RESULT
    outputs: {e: {value: int, units: eV}}
  one:
    over: [i]
    inputs: {e: {from: make.e, units: kJ/mol}}
    command: echo ${{ inputs.e }} ${{ make.e }} && grep -q 96.48 $DIEL_INPUTS || [ ${{ i }} = 1 ]
  mean: {module: "statistics:mean", inputs: {data: {from: make.e, units: kJ/mol}}}
  heat: {module: "numpy:linspace", params: {start: 0, stop: 100, num: 3}, outputs: {t: {units: degC, shape: [3]}}}
  sum: {module: "numpy:sum", inputs: {a: {from: heat.t, units: K}}}
  table: {module: "own:table", outputs: {result: {columns: {energy: float}, rows: 2, units: {energy: eV/atom, t: K}}}}
  read: {module: "own:read", inputs: {t: {from: table.result, units: {energy: kJ/mol}}}}
  store:
    command: [python, make.py]
    files: {script: make.py}
    outputs:
      x: {path: "a.h5:/g/x", shape: [2], finite: true}
      rows: {path: "a.h5:/g", columns: {n: int}, rows: 2}
  use: {module: "own:read_store", inputs: {x: store.x, rows: store.rows}}
  each: {over: [row], command: "echo ${{ n }} ${{ x }}"}
  pairs: {over: [pair], command: "echo ${{ t }}"}
  samples: {module: "own:samples", outputs: {result: {shape: [2, 2]}}}
  drawn: {over: [draw], command: "echo ${{ X0 }} ${{ X1 }}"}
  many: {over: [i], module: "own:table"}
  all: {module: "own:tables", inputs: {ts: many.result}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "make.py").write_text(
        "import h5py\nwith h5py.File('a.h5', 'w') as f:\n    f['g/x'] = [1.5, 2.5]\n    f['g/n'] = [7, 8]\n"
    )
    flow = FLOW.replace(
        "[python, make.py]", '["${{ params.python }}", "${{ files.script }}"]\n    params: {python: PYTHON}'
    )
    import sys

    return Project(tmp_path).workflow(flow.replace("PYTHON", sys.executable))


def test_units_are_converted_and_files_read_where_a_function_takes_them(project: Project) -> None:
    run = project.run()
    assert project.diel("logs", "last", "one/0") == "96.48533212331002 1\n"
    assert run.value("mean", "result") == pytest.approx(1.5 * 96.48533212)
    assert run.value("sum", "result") == pytest.approx(3 * 273.15 + 150)
    assert run.value("read", "energy") == pytest.approx([96.48533212, 192.97066425])
    assert run.value("read", "t") == [300, 400]
    assert (run.value("use", "x"), run.value("use", "n")) == ([1.5, 2.5], [7, 8])
    assert project.diel("logs", "last", "each/1") == "8 2.5\n"
    assert project.diel("logs", "last", "pairs/0") == "300\n"
    assert project.diel("logs", "last", "drawn/1") == "0.75 4.0\n"
    assert run.value("all", "result") == 4

    # another unit is another result, of all that read it in that unit and of nothing else
    path = project.folder / "flow.yaml"
    path.write_text(path.read_text().replace("units: K}}}\n  table", "units: degF}}}\n  table"))
    again = project.run()
    assert again.counts("sum") == {"done": 1}
    assert again.counts("mean") == {"cached": 1}


def test_a_table_has_the_types_of_its_contract(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import pandas\ndef read(t: pandas.DataFrame): return {'ids': [str(one) for one in t['id']]}\n"
        "def rows(t: pandas.DataFrame): return {'n': str(t['n'][0])}\n"
    )
    flow = """
stages:
  make: {command: "printf 'id,v\\n7,1\\n8,2\\n' > t.csv", outputs: {t: {path: t.csv, columns: {id: str}}}}
  read: {module: "own:read", inputs: {t: {from: make.t}}}
  rows: {module: "own:rows", params: {t: [{n: 9007199254740993}, {m: 1}]}}
"""
    project = Project(tmp_path).workflow(flow)
    run = project.run()
    assert (run.value("read", "ids"), run.value("rows", "n")) == (["7", "8"], "9007199254740993")
    project.workflow(flow.replace("id: str", "id: float"))
    again = project.run()
    assert again.value("read", "ids") == ["7.0", "8.0"]


def test_a_broken_promise_of_a_store_fails_its_task(project: Project) -> None:
    path = project.folder / "flow.yaml"
    path.write_text(path.read_text().replace("shape: [2], finite", "shape: [3], finite"))
    run = project.run(code=1)
    told = "output 'x': a.h5:/g/x has shape [2]; expected [3]"
    assert run.failure("store", 0)["message"] == told


def test_a_contract_without_its_library_is_told_before_anything_runs(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from diel.cli import main

    monkeypatch.setattr(
        "diel.planning.check.contracts.lacking", lambda path: "h5py: pip install 'diel[data]'"
    )
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main(["validate", str(project.folder / "flow.yaml")]))
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert (
        "stages.store.outputs.x: 'a.h5' cannot be read to hold it to its contract: h5py is not installed"
        in said
    )
    assert "pip install 'diel[data]'" in said
    assert "'a.h5' cannot be read as an axis needs it" in said


CANDIDATES = """
    axes:
      m: {values: [2, 1]}
      cand: {from: screen.rows, columns: [i, d]}
    stages:
      screen: {over: [m], module: "steps:screen"}
      sim: {over: [cand, m], module: "steps:sim"}
      first: {over: [m], module: "steps:first", inputs: {v: {from: sim.v, at: {cand: {i: 0}}}}}
      each: {module: "steps:each", inputs: {v: {from: sim.v, at: {cand: {i: 0}}}}}
"""
CANDIDATE_STEPS = """
    @diel.module(kind="simulation")
    def screen(m: int) -> dict:
        return {"rows": [{"i": min(i, LAST), "d": 10 * m + i} for i in range(m + 1)]}

    @diel.module(kind="simulation")
    def sim(i: int, d: int, m: int) -> dict:
        return {"v": 100 * m + d}

    @diel.module(kind="analysis")
    def first(v: int) -> dict:
        return {"v": v}

    @diel.module(kind="analysis")
    def each(v: list[int]) -> dict:
        return {"v": v}
"""


def test_at_picks_one_point_of_a_derived_axis_for_each_point_of_its_stage(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(CANDIDATES).module("steps", CANDIDATE_STEPS.replace("LAST", "9"))
    run = project.run()
    assert (run.values("first", "v"), run.values("each", "v")) == ([220, 110], [[220, 110]])
    project.module("steps", CANDIDATE_STEPS.replace("LAST", "m - 2"))  # at m = 1 none is 0, at m = 2 all are
    assert "`at` picks 3 points of axis 'cand' of 'sim'" in project.diel("run", "flow.yaml", code=1)
