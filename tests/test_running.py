"""What a run does, as a user sees it: edges, axes, commands, modules, MPI, conditions.

A run costs most of a second, so that one run serves many tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from tests.cli.call import call
from tests.descendants import gone
from tests.throwaway import Project, Run

# --- edges and axes ---------------------------------------------------------------------------

EDGES = """
    axes:
      a: {values: [1, 2]}
      b: {values: [x, y, z]}
      pair: {zip: {left: [1, 2, 3], right: {linspace: [0, 1, 3]}}}
      table: {file: points.csv}
      some: {file: {path: points.jsonl, columns: [mass]}}
      drawn: {sample: {method: uniform, points: 5, seed: 3, parameters: {u: {low: 2, high: 4}, k: {low: 1, high: 3, type: int}}}}
      listed: {from: seed.numbers}
      rows: {from: seed.rows}
      csv: {from: seed.csv, columns: [p, q]}
      jsonl: {from: seed.jsonl}
      part: {from: split.parts}
      none: {from: seed.nothing}
    stages:
      seed:
        module: "tools:seed"
      make:
        over: [a, b]
        module: "tools:keep"
        params: {value: "${{ a }}${{ b }}"}
      match: {over: [a, b], module: "tools:keep", inputs: {value: make.value}}
      turned: {over: [b, a], module: "tools:keep", inputs: {value: make.value}}
      gather: {over: [a], module: "tools:keep", inputs: {value: make.value}}
      everything: {module: "tools:keep", inputs: {value: make.value}}
      broadcast: {over: [b], module: "tools:keep", inputs: {value: seed.base}}
      across: {over: [b, pair], module: "tools:keep", params: {value: ["${{ make.value }}", "${{ left }}"]}}
      row_of: {module: "tools:keep", inputs: {value: {from: make.value, at: {a: 2}}}}
      cell_of: {module: "tools:keep", inputs: {value: {from: make.value, at: {a: 2, b: y}}}}
      column_of: {over: [a], module: "tools:keep", inputs: {value: {from: make.value, at: {b: z}}}}
      paired: {over: [pair], module: "tools:keep", params: {value: ["${{ left }}", "${{ right }}", "${{ pair.left }}"]}}
      at_pair: {module: "tools:keep", inputs: {value: {from: paired.value, at: {pair: {left: 2}}}}}
      parameter: {module: "tools:keep", inputs: {value: paired.right}}
      from_file: {over: [table], module: "tools:keep", params: {value: ["${{ name }}", "${{ mass }}"]}}
      from_lines: {over: [some], module: "tools:keep", params: {value: "${{ mass }}"}}
      sampled: {over: [drawn], module: "tools:keep", params: {value: ["${{ u }}", "${{ k }}"]}}
      over_list: {over: [listed], module: "tools:keep", params: {value: "${{ listed }}"}}
      over_rows: {over: [rows], module: "tools:keep", params: {value: ["${{ n }}", "${{ w }}"]}}
      over_csv: {over: [csv], module: "tools:keep", params: {value: ["${{ p }}", "${{ q }}"]}}
      over_jsonl: {over: [jsonl], module: "tools:keep", params: {value: "${{ k * 2 }}"}}
      split: {over: [a], module: "tools:split", params: {count: "${{ a }}"}}
      ragged: {over: [a, part], module: "tools:keep", params: {value: "${{ a }}:${{ part }}"}, inputs: {origin: split.name}}
      ragged_match: {over: [a, part], module: "tools:keep", inputs: {value: ragged.value}}
      ragged_back: {over: [a], module: "tools:keep", inputs: {value: ragged.value}}
      ragged_all: {module: "tools:keep", inputs: {value: ragged.value}}
      part_first: {over: [part, a], module: "tools:keep", inputs: {value: ragged.value}}
      part_only: {over: [part], module: "tools:keep", params: {value: "${{ part }}"}}
      nothing: {over: [none], module: "tools:keep", params: {value: "${{ none }}"}}
      nothing_times: {over: [b, none], module: "tools:keep", params: {value: 1}}
      of_nothing: {module: "tools:keep", inputs: {value: nothing.value}}
      of_nothing_each: {over: [b], module: "tools:keep", inputs: {value: nothing_times.value}}
      part_other: {over: [b, part], module: "tools:keep", params: {value: "${{ b }}${{ part }}"}}
"""
TOOLS = """
    from pathlib import Path
    from typing import Any

    @diel.module(kind="analysis")
    def keep(value: Any, origin: str = "") -> dict:
        return {"value": value, "origin": origin}

    @diel.module(kind="simulation")
    def seed(context: diel.Context) -> dict:
        Path("p.csv").write_text("p,q,r\\n1,one,-\\n2,'two',-\\n")
        Path("k.jsonl").write_text('{"k": 1}\\n\\n{"k": 2.5}\\n')
        return {
            "base": 10,
            "numbers": [3, 1, 2],
            "rows": [{"n": 1, "w": "a"}, {"w": "b", "n": 2}],
            "nothing": [],
            "csv": Path("p.csv"),
            "jsonl": context.task_dir / "k.jsonl",
        }

    @diel.module(kind="analysis")
    def split(count: int) -> dict:
        return {"parts": [f"p{n}" for n in range(count)], "name": f"split {count}"}
"""


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Run:
    project = Project(tmp_path_factory.mktemp("edges")).workflow(EDGES).module("tools", TOOLS)
    (project.folder / "points.csv").write_text('\ufeffname,mass\n"a, b",1\n"say ""hi""\nthere",1e-3\n')
    (project.folder / "points.jsonl").write_text('{"mass": 5, "more": 1}\n{"mass": null, "more": 2}\n')
    return project.run()


MADE = ["1x", "1y", "1z", "2x", "2y", "2z"]


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("make", MADE),
        ("match", MADE),
        ("turned", ["1x", "2x", "1y", "2y", "1z", "2z"]),
        ("gather", [MADE[:3], MADE[3:]]),
        ("everything", [MADE]),
        ("broadcast", [10, 10, 10]),
        ("across", [[["1" + b, "2" + b], n] for b in "xyz" for n in (1, 2, 3)]),
        ("row_of", [MADE[3:]]),
        ("cell_of", ["2y"]),
        ("column_of", ["1z", "2z"]),
        ("paired", [[1, 0.0, 1], [2, 0.5, 2], [3, 1.0, 3]]),
        ("at_pair", [[2, 0.5, 2]]),
        ("parameter", [[0.0, 0.5, 1.0]]),
        ("from_file", [["a, b", 1], ['say "hi"\nthere', 1e-3]]),
        ("from_lines", [5, None]),
        ("over_list", [3, 1, 2]),
        ("over_rows", [[1, "a"], [2, "b"]]),
        ("over_csv", [[1, "one"], [2, "'two'"]]),
        ("over_jsonl", [2, 5.0]),
        ("ragged", ["1:p0", "2:p0", "2:p1"]),
        ("ragged_match", ["1:p0", "2:p0", "2:p1"]),
        ("ragged_back", [["1:p0"], ["2:p0", "2:p1"]]),
        ("ragged_all", [["1:p0", "2:p0", "2:p1"]]),
        ("part_first", ["1:p0", "2:p0", "2:p1"]),
        ("part_only", ["p0", "p0", "p1"]),
        ("nothing", []),
        ("nothing_times", []),
        ("of_nothing", [[]]),
        ("of_nothing_each", [[], [], []]),
        ("part_other", [b + p for b in "xyz" for p in ("p0", "p0", "p1")]),
    ],
)
def test_data_moves_along_axes_by_the_three_rules(edges: Run, stage: str, expected: list[object]) -> None:
    assert edges.values(stage, "value") == expected


def test_a_derived_axis_joins_the_axis_that_it_was_made_over(edges: Run) -> None:
    assert edges.values("ragged", "origin") == ["split 1", "split 2", "split 2"]


def test_a_sample_lies_within_its_bounds_and_is_kept_with_the_run(edges: Run) -> None:
    drawn = edges.values("sampled", "value")
    assert len({tuple(point) for point in drawn}) == 5
    assert all(2 <= u <= 4 and k in (1, 2, 3) and isinstance(k, int) for u, k in drawn)
    assert (edges.root / "axes" / "drawn.jsonl").exists()


def test_every_task_is_accounted_for(edges: Run) -> None:
    history = edges.history()
    assert history.state == "succeeded"
    for name, stage in history.stages.items():
        assert edges.counts(name) == ({"done": stage.total} if stage.total else {})


# --- commands ---------------------------------------------------------------------------------

COMMANDS = """
    hyperparameters:
      rate: {type: float, default: 0.5, low: 0, high: 1}
    axes:
      t: {values: [0.5, 2]}
    stages:
      first:
        over: [t]
        command: |
          cat ${{ files.script }} "${{ files.script }}" > copy.txt
          mkdir -p sub/deeper
          printf '%s' "${{ params.note }}" > ${{ outputs.note }}
          printf '{"int": 1, "float": 2, "text": "a", "flag": true, "list": [1, ${{ t }}], "map": {"k": null}, "extra": 3}' > "$DIEL_RESULT"
          printf '{"loss": 1}\\n{"loss": 0.5}\\n' > "$DIEL_METRICS"
        files: {script: data/in put.txt}
        params: {note: "t=${{ t }}", rate: "${{ hp.rate }}"}
        env: {GREETING: "hello ${{ t }}", COUNT: 3}
        outputs:
          copy: copy.txt
          folder: made
          note: "sub/deeper/note-${{ task.index }}.txt"
          int: {value: int}
          float: {value: float}
          text: {value: str}
          flag: {value: bool}
          list: {value: list}
          map: {value: dict}
      env:
        over: [t]
        command: [sh, -c, 'mkdir "$DIEL_CHECKPOINT_DIR"; env; echo "cwd=$(pwd)"; echo "params=$(cat "$DIEL_PARAMS")"; echo "inputs=$(cat "$DIEL_INPUTS")"']
        params: {rate: "${{ hp.rate }}", nested: {list: [1, "${{ t }}"]}}
        inputs: {note: first.note, number: first.int, rate_too: hp.rate}
        env: {GREETING: "hello ${{ t }}", COUNT: 3}
        timeout: 50s
      bare:
        command: [sh, -c, 'echo "params=$(cat "$DIEL_PARAMS")"; echo "inputs=$(cat "$DIEL_INPUTS")"; echo "deadline=$DIEL_DEADLINE"; echo "greeting=$GREETING"']
      words:
        command: [printf, "<%s>", "${{ first.copy }}", "n=${{ first.float }}", "${{ first.float }}", "${{ first.list[0] }}", 7, 1.5, true]
      spread:
        command: printf '<%s>' ${{ first.extra }} ${{ inputs.notes }} end; printf '(%s)' "${{ first.extra }}"
        inputs: {notes: first.note}
      literal:
        command: [printf, "%s", "$${{ t }} {} ${HOME} }}"]
      silent: {command: "true"}
      noisy: {command: "echo oops >&2"}
      stdin: {command: "cat; echo read"}
      leaver:
        command: |
          sleep 900 & echo $! > here.pid
          setsid sleep 901 & sleep 0.05
          echo $! > there.pid
      waits: {after: [leaver], command: [echo, after]}
"""


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Run:
    project = Project(tmp_path_factory.mktemp("commands"))
    text = COMMANDS.replace(
        "printf '%s' \"${{ params.note", "mkdir made; echo 1 > made/one; printf '%s' \"${{ params.note"
    )
    project.workflow(text)
    (project.folder / "data").mkdir()
    (project.folder / "data" / "in put.txt").write_text("data\n")
    return project.run()


def test_declared_files_are_artifacts_and_result_gives_values(commands: Run) -> None:
    first = commands.results("first")[1]
    assert first["values"] == {
        "int": 1, "float": 2, "text": "a", "flag": True, "list": [1, 2], "map": {"k": None}, "extra": 3,
    }  # fmt: skip
    assert commands.artifact("first", "copy").read_text() == "data\ndata\n"
    assert commands.artifact("first", "note", 1).read_text() == "t=2"
    assert commands.artifact("first", "note", 1).name == "note-1.txt"
    assert (commands.artifact("first", "folder") / "one").read_text() == "1\n"


def test_every_variable_of_a_task_is_set(commands: Run) -> None:
    lines = commands.stdout("env", 1).splitlines()
    found = dict(line.partition("=")[::2] for line in lines if "=" in line)
    task_dir = commands.task_dir("env", 1)
    assert found["DIEL_RUN_ID"] == commands.id
    assert found["DIEL_RUN_DIR"] == str(commands.root)
    assert found["DIEL_STAGE"] == "env"
    assert found["DIEL_TASK_ID"] == "env/1"
    assert found["DIEL_ATTEMPT"] == "1"
    assert found["DIEL_TASK_DIR"] == found["cwd"] == found["PWD"] == str(task_dir)
    assert Path(found["DIEL_CHECKPOINT_DIR"]).is_dir()
    start = commands.records("start", "env")[0]["time"]
    assert float(found["DIEL_DEADLINE"]) == pytest.approx(start + 50, abs=5)
    assert found["GREETING"] == "hello 2"
    assert found["COUNT"] == "3"
    assert found["OMP_NUM_THREADS"] == "1"
    assert json.loads(found["params"]) == {"t": 2, "rate": 0.5, "nested": {"list": [1, 2]}}
    note = str(commands.artifact("first", "note", 1))
    assert json.loads(found["inputs"]) == {"note": note, "number": 1, "rate_too": 0.5}
    for name in ("DIEL_RESULT", "DIEL_METRICS", "DIEL_PARAMS", "DIEL_INPUTS"):
        assert Path(found[name]).parent == task_dir


def test_a_task_without_parameters_reads_empty_objects(commands: Run) -> None:
    assert commands.stdout("bare").splitlines() == ["params={}", "inputs={}", "deadline=", "greeting="]


def test_a_whole_list_becomes_several_words_of_a_list_command(commands: Run) -> None:
    copies = [str(commands.artifact("first", "copy", n)) for n in (0, 1)]
    assert commands.stdout("words") == "".join(
        f"<{word}>" for word in [*copies, "n=[2, 2]", "2", "2", "1", "0.5", "7", "1.5", "true"]
    )


def test_a_whole_list_becomes_several_words_of_a_shell_command(commands: Run) -> None:
    notes = [str(commands.artifact("first", "note", n)) for n in (0, 1)]
    assert commands.stdout("spread") == f"<3><3><{notes[0]}><{notes[1]}><end>(3 3)"


def test_a_doubled_dollar_is_a_literal_expression(commands: Run) -> None:
    assert commands.stdout("literal") == "${{ t }} {} ${HOME} }}"


def test_a_silent_task_leaves_no_output_file(commands: Run) -> None:
    assert not (commands.task_dir("silent") / "stdout").exists()
    assert not (commands.task_dir("silent") / "stderr").exists()
    assert commands.stderr("noisy") == "oops\n"
    assert not (commands.task_dir("noisy") / "stdout").exists()


def test_the_standard_input_of_a_task_is_empty(commands: Run) -> None:
    assert commands.stdout("stdin") == "read\n"


def test_what_a_task_leaves_running_is_gone_with_the_run(commands: Run) -> None:
    assert not commands.processes()
    for name in ("here.pid", "there.pid"):
        pid = int((commands.task_dir("leaver") / name).read_text())
        assert gone(pid)
    assert commands.stdout("waits") == "after\n"


def test_metrics_stay_with_the_task(commands: Run) -> None:
    lines = (commands.task_dir("first", 0) / ".metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == [1, 0.5]


# --- Python modules ---------------------------------------------------------------------------

MODULES = """
    axes:
      n: {range: 6}
      shared: {values: [1, 2]}
    stages:
      returns: {module: "kinds:returns"}
      dataclass: {module: "kinds:as_dataclass"}
      nothing: {module: "kinds:nothing"}
      prints: {module: "kinds:prints"}
      context: {over: [n], module: "kinds:context", params: {extra: 1}, retries: 1, timeout: 1m}
      loads: {over: [n], module: "kinds:loads"}
      reads: {module: "kinds:reads", inputs: {array: returns.array, path: returns.path, many: counts.file, number: returns.number}}
      counts: {over: [shared], module: "kinds:counts"}
      anything: {over: [shared], module: "kinds:anything", params: {b: 2}}
      env: {module: "kinds:environment", env: {GREETING: "hello"}}
      env_after: {module: "kinds:environment", after: [env]}
      stdin: {module: "kinds:stdin"}
      chdir: {module: "kinds:chdir"}
      chdir_after: {module: "kinds:returns", after: [chdir]}
"""
KINDS = """
    import dataclasses
    import os
    import sys
    from pathlib import Path
    from typing import Any

    import numpy

    @dataclasses.dataclass
    class Result:
        loss: float
        file: Path

    @diel.module(kind="simulation")
    def returns(context: diel.Context) -> dict:
        Path("made.txt").write_text("made")
        return {
            "number": numpy.float64(1.5), "count": numpy.int32(3), "flag": numpy.bool_(True), "none": None,
            "nested": {"t": (1, numpy.int64(2))}, "array": numpy.arange(6).reshape(2, 3),
            "path": Path("made.txt"), "folder": context.task_dir,
        }

    @diel.module(kind="simulation")
    def as_dataclass() -> Result:
        Path("r").write_text("r")
        return Result(0.25, Path("r"))

    @diel.module(kind="analysis")
    def nothing() -> None:
        return None

    @diel.module(kind="analysis")
    def prints() -> dict:
        print("out"); print("err", file=sys.stderr); os.system("echo from a child"); os.write(1, b"raw\\n")
        return {}

    @diel.module(kind="training")
    def context(n: int, extra: int, context: diel.Context) -> dict:
        context.report(epoch=1, loss=0.5)
        context.report(epoch=2, loss=0.25)
        (context.checkpoint_dir / "c").write_text("c")
        return {
            "task": context.task_id, "index": context.index, "attempt": context.attempt, "rank": context.rank,
            "cwd": str(Path.cwd()), "dir": str(context.task_dir), "run": context.run_id, "stage": context.stage,
            "left": context.time_left, "params": dict(context.params), "env": os.environ["DIEL_TASK_ID"],
        }

    @diel.module(kind="inference")
    def loads(n: int, context: diel.Context) -> dict:
        def load() -> int:
            print("loading")
            return 42
        return {"model": context.cached("model", load), "pid": os.getpid()}

    @diel.module(kind="analysis")
    def counts(shared: int) -> dict:
        Path("c").write_text("c" * shared)
        return {"file": Path("c")}

    @diel.module(kind="analysis")
    def reads(array: Path, path: Path, many: list[Path], number: float) -> dict:
        sizes = [file.stat().st_size for file in many]
        return {"sum": int(numpy.load(array).sum()), "text": path.read_text(), "sizes": sizes, "number": number}

    @diel.module(kind="analysis")
    def anything(**given: Any) -> dict:
        return {"given": given}

    @diel.module(kind="analysis")
    def environment() -> dict:
        return {"greeting": os.environ.get("GREETING", "")}

    @diel.module(kind="analysis")
    def stdin() -> dict:
        return {"read": sys.stdin.read()}

    @diel.module(kind="analysis")
    def chdir() -> dict:
        os.chdir("/")
        sys.stdout = open(os.devnull, "w")
        os.environ["GREETING"] = "left behind"
        return {}
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Project(tmp_path_factory.mktemp("modules")).workflow(MODULES).module("kinds", KINDS).run()


def test_a_module_returns_values_files_and_arrays(modules: Run) -> None:
    record = modules.results("returns")[0]
    assert record["values"] == {
        "number": 1.5, "count": 3, "flag": True, "none": None, "nested": {"t": [1, 2]},
    }  # fmt: skip
    assert numpy.load(modules.artifact("returns", "array")).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert modules.artifact("returns", "path").read_text() == "made"
    assert modules.artifact("returns", "folder") == modules.task_dir("returns")
    assert modules.value("dataclass", "loss") == 0.25
    assert modules.artifact("dataclass", "file").read_text() == "r"
    assert modules.counts("nothing") == {"done": 1}


def test_a_module_reads_files_as_paths_and_lists_of_them(modules: Run) -> None:
    assert modules.results("reads")[0]["values"] == {
        "sum": 15,
        "text": "made",
        "sizes": [1, 2],
        "number": 1.5,
    }
    assert modules.values("anything", "given") == [{"b": 2, "shared": 1}, {"b": 2, "shared": 2}]


def test_what_a_module_prints_is_kept_in_order(modules: Run) -> None:
    assert sorted(modules.stdout("prints").split("\n")) == sorted(["out", "from a child", "raw", ""])
    assert modules.stderr("prints") == "err\n"
    assert not modules.task_dir("nothing").exists()


def test_the_context_tells_a_module_where_it_is(modules: Run) -> None:
    told = modules.results("context")[3]["values"]
    left = told.pop("left")
    assert 0 < left <= 60
    assert told == {
        "task": "context/3", "index": 3, "attempt": 1, "rank": 0, "stage": "context", "run": modules.id,
        "cwd": str(modules.task_dir("context", 3)), "dir": str(modules.task_dir("context", 3)),
        "params": {"n": 3, "extra": 1}, "env": "context/3",
    }  # fmt: skip
    metrics = (modules.task_dir("context", 3) / ".metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in metrics] == [0.5, 0.25]
    assert (modules.root / "tasks" / "context" / "3.checkpoint" / "c").read_text() == "c"


def test_a_worker_loads_a_model_once(modules: Run) -> None:
    assert modules.values("loads", "model") == [42] * 6
    loaders = [n for n in range(6) if (modules.task_dir("loads", n) / "stdout").exists()]
    assert len(loaders) == len(set(modules.values("loads", "pid")))


def test_one_task_does_not_see_what_another_did_to_the_process(modules: Run) -> None:
    assert modules.value("env", "greeting") == "hello"
    assert modules.value("env_after", "greeting") == ""
    assert modules.value("stdin", "read") == ""
    assert modules.counts("chdir_after") == {"done": 1}


# --- MPI --------------------------------------------------------------------------------------

MPI = """
    stages:
      ranks: {module: "mpi:ranks", params: {scale: 10}, resources: {ranks: 2}}
      command:
        command: [sh, -c, 'echo "rank ${PMI_RANK}"; [ "$PMI_RANK" = 1 ] || echo "{\\"ok\\": 1}" > "$DIEL_RESULT"']
        resources: {ranks: 2}
        outputs: {ok: {value: int}}
      shell:
        command: echo "rank $PMI_RANK of $PMI_SIZE"
        resources: {ranks: 2}
      raises: {module: "mpi:raises", resources: {ranks: 2}}
      dies: {module: "mpi:dies", resources: {ranks: 2}, on: {node: {retries: 0}}}
      killed: {command: 'if [ $PMI_RANK = 1 ]; then kill -KILL $$; fi; sleep 9', resources: {ranks: 2}, on: {node: {retries: 0}}}
      exits: {command: [sh, -c, 'exit $((PMI_RANK * 7))'], resources: {ranks: 2}}
      hangs: {module: "mpi:hangs", resources: {ranks: 2}, timeout: 3s}
      alone: {module: "mpi:ranks", params: {scale: 3}, resources: {ranks: 1}}
      after: {module: "mpi:last", inputs: {total: ranks.total, file: ranks.file}}
"""
MPI_MODULE = """
    import os
    import signal
    import sys
    import time
    from pathlib import Path
    from mpi4py import MPI

    @diel.module(kind="simulation")
    def ranks(scale: int, communicator: MPI.Comm, context: diel.Context) -> dict:
        total = communicator.allreduce(scale * (communicator.Get_rank() + 1))
        context.report(rank=context.rank)
        print("hello from", context.rank)
        path = Path(f"rank{context.rank}")
        path.write_text(str(context.rank))
        return {"total": total, "size": communicator.Get_size(), "rank": context.rank, "file": path}

    @diel.module(kind="simulation")
    def raises(communicator: MPI.Comm) -> dict:
        if communicator.Get_rank() == 1:
            raise ValueError("rank 1 is unhappy")
        communicator.Barrier()
        return {}

    @diel.module(kind="simulation")
    def dies(communicator: MPI.Comm) -> dict:
        if communicator.Get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        communicator.Barrier()
        return {}

    @diel.module(kind="simulation")
    def hangs(communicator: MPI.Comm) -> dict:
        time.sleep(600 * communicator.Get_rank())
        communicator.Barrier()
        return {}

    @diel.module(kind="analysis")
    def last(total: int, file: Path) -> dict:
        return {"total": total, "text": file.read_text(), "mpi": "mpi4py.MPI" in sys.modules}
"""


@pytest.fixture(scope="module")
def mpi(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Project(tmp_path_factory.mktemp("mpi")).workflow(MPI).module("mpi", MPI_MODULE).run(code=1)


def test_the_result_of_an_mpi_module_is_that_of_rank_0(mpi: Run) -> None:
    values = mpi.results("ranks")[0]["values"]
    assert values == {"total": 30, "size": 2, "rank": 0}
    assert mpi.artifact("ranks", "file").read_text() == "0"
    letters = "".join(mpi.stdout("ranks").split())  # two processes write at the same time
    assert sorted(letters) == sorted("hellofrom0hellofrom1")
    assert len((mpi.task_dir("ranks") / ".metrics.jsonl").read_text().splitlines()) == 1
    assert mpi.results("alone")[0]["values"] == {"total": 3, "size": 1, "rank": 0}
    assert mpi.value("after", "total") == 30
    assert not [p.name for p in mpi.task_dir("ranks").iterdir() if p.name.startswith((".call", ".return"))]


def test_diel_puts_the_launcher_before_an_mpi_command(mpi: Run) -> None:
    assert sorted(mpi.stdout("command").splitlines()) == ["rank 0", "rank 1"]
    assert mpi.value("command", "ok") == 1
    assert sorted(mpi.stdout("shell").splitlines()) == ["rank 0 of 2", "rank 1 of 2"]


def test_one_rank_that_fails_ends_the_task_and_says_why(mpi: Run) -> None:
    raised = mpi.failure("raises")
    assert raised["class"] == "app"
    assert raised["message"] == "ValueError: rank 1 is unhappy"
    assert "rank 1 is unhappy" in mpi.stderr("raises")
    assert mpi.failure("exits")["exit_code"] == 7
    assert mpi.failure("exits")["class"] == "app"
    hung = mpi.failure("hangs")
    assert hung["class"] == "timeout"
    assert not mpi.processes()


@pytest.mark.parametrize("stage", ["dies", "killed"])
def test_a_rank_that_is_killed_from_outside_is_as_one_whose_node_was_lost(mpi: Run, stage: str) -> None:
    failure = mpi.failure(stage)
    assert failure["class"] == "node"
    assert failure["message"] == "ended from outside (exit code 9)"


# --- conditions -------------------------------------------------------------------------------

CONDITIONS = """
    hyperparameters: {deep: {type: bool, default: false}}
    axes:
      n: {range: 4}
    stages:
      first: {over: [n], module: "tools:keep", params: {value: "${{ n }}"}}
      even: {over: [n], when: "n % 2 == 0", module: "tools:keep", inputs: {value: first.value}}
      after_even: {over: [n], module: "tools:keep", inputs: {value: even.value}}
      gathered: {module: "tools:keep", inputs: {value: even.value}}
      never: {when: false, module: "tools:keep", params: {value: 1}}
      after_never: {module: "tools:keep", inputs: {value: never.value}}
      ordered_after_never: {after: [never], module: "tools:keep", params: {value: 1}}
      by_value: {over: [n], when: "${{ first.value > 2 }}", module: "tools:keep", params: {value: "${{ n }}"}}
      by_hyperparameter: {when: hp.deep, module: "tools:keep", params: {value: 1}}
      none_left: {over: [n], when: "n > 9", module: "tools:keep", params: {value: "${{ n }}"}}
      of_none_left: {module: "tools:keep", inputs: {value: none_left.value}}
      odd_fails: {over: [n], command: 'echo "{\\"v\\": ${{ n }}}" > "$DIEL_RESULT"; exit ${{ n % 2 }}', outputs: {v: {value: int}}}
      half_is_enough: {module: "tools:keep", inputs: {value: {from: odd_fails.v, min_success: 0.5}}}
      more_is_not_there: {module: "tools:keep", inputs: {value: {from: odd_fails.v, min_success: 0.6}}}
      all_is_not_there: {module: "tools:keep", inputs: {value: odd_fails.v}}
      each_its_own: {over: [n], module: "tools:keep", inputs: {value: odd_fails.v}}
      downstream: {over: [n], module: "tools:keep", inputs: {value: each_its_own.value}}
      untouched: {over: [n], module: "tools:keep", inputs: {value: first.value}}
      maker: {command: "exit 3", outputs: {list: {value: list}}}
      over_lost: {over: [lost], module: "tools:keep", params: {value: "${{ lost }}"}}
      of_lost: {module: "tools:keep", inputs: {value: over_lost.value}}
      wrong_maker: {module: "tools:keep", params: {value: 5}}
      over_wrong: {over: [wrong], module: "tools:keep", params: {value: "${{ wrong }}"}}
"""


@pytest.fixture(scope="module")
def conditions(tmp_path_factory: pytest.TempPathFactory) -> Run:
    text = CONDITIONS.replace(
        "n: {range: 4}",
        "n: {range: 4}\n      lost: {from: maker.list}\n      wrong: {from: wrong_maker.value}",
    )
    project = Project(tmp_path_factory.mktemp("conditions"))
    return project.workflow(text).module("tools", TOOLS).run(code=1)


def test_when_leaves_tasks_out_and_what_depends_on_them(conditions: Run) -> None:
    assert conditions.values("even", "value") == [0, 2]
    assert conditions.counts("even") == {"done": 2, "skipped": 2}
    assert conditions.values("after_even", "value") == [0, 2]
    assert conditions.counts("after_even") == {"done": 2, "skipped": 2}
    assert conditions.values("by_value", "value") == [3]
    for stage in ("never", "after_never", "ordered_after_never", "by_hyperparameter"):
        assert conditions.counts(stage) == {"skipped": 1}


def test_a_gather_leaves_omitted_tasks_out(conditions: Run) -> None:
    assert conditions.value("gathered", "value") == [0, 2]
    assert conditions.counts("none_left") == {"skipped": 4}
    assert conditions.value("of_none_left", "value") == []


def test_min_success_goes_on_with_what_there_is(conditions: Run) -> None:
    assert conditions.value("half_is_enough", "value") == [0, 2]
    assert conditions.counts("more_is_not_there") == {"skipped": 1}
    assert conditions.counts("all_is_not_there") == {"skipped": 1}


def test_a_failed_task_skips_only_what_depends_on_it(conditions: Run) -> None:
    assert conditions.counts("odd_fails") == {"done": 2, "failed": 2}
    assert conditions.counts("each_its_own") == {"done": 2, "skipped": 2}
    assert conditions.counts("downstream") == {"done": 2, "skipped": 2}
    assert conditions.values("downstream", "value") == [0, 2]
    assert conditions.counts("untouched") == {"done": 4}


def test_an_axis_whose_maker_failed_makes_its_stages_void(conditions: Run) -> None:
    history = conditions.history()
    assert history.state == "failed"
    void = {r["stage"]: r["void"] for r in conditions.records("stage") if "void" in r}
    assert "'maker' did not make the axis 'lost'" in void["over_lost"]
    assert "expected a list" in void["over_wrong"]
    assert "5" in void["over_wrong"]
    assert history.stages["over_lost"].total == 0
    assert conditions.counts("of_lost") == {"skipped": 1}


# --- the parallel executor --------------------------------------------------------------------

MANY = """
    axes:
      n: {range: 250}
      part: {from: split.parts}
    stages:
      work: {over: [n], command: 'echo ${{ n }}; exit ${{ int(n == 77) }}'}
      split: {module: "tools:split", params: {count: 3}}
      parts: {over: [part], module: "tools:keep", params: {value: "${{ part }}"}}
      total: {module: "tools:keep", inputs: {value: parts.value}}
"""


def test_a_run_of_many_tasks_ends_as_a_short_one_does(tmp_path: Path) -> None:
    run = Project(tmp_path).workflow(MANY).module("tools", TOOLS).run(code=1)
    assert run.counts("work") == {"done": 249, "failed": 1}
    assert run.failure("work", 77)["exit_code"] == 1
    assert [int(run.stdout("work", n)) for n in range(250)] == list(range(250))
    assert run.value("total", "value") == ["p0", "p1", "p2"]
    assert not run.processes()


def test_tasks_that_take_longer_than_a_bundle_waits_are_all_done(tmp_path: Path) -> None:
    text = """
    axes: {n: {range: 10}}
    stages: {slow: {over: [n], command: "sleep 1.1; echo $DIEL_ATTEMPT ${{ task.attempt }} $PWD"}}
"""
    run = Project(tmp_path).workflow(text).run()
    assert run.counts("slow") == {"done": 10}
    handed_back = {index for record in run.records("release") for index in record["tasks"]}
    assert handed_back, "this tests nothing"
    for n in range(10):
        assert run.attempts("slow", n) == [1], "it was handed out again, but began once"
        assert run.stdout("slow", n).split() == ["1", "1", str(run.task_dir("slow", n))]


# --- the command's own answers ----------------------------------------------------------------


@pytest.fixture
def small(workspace: Path) -> Project:
    return Project(workspace).workflow("stages: {a: {command: [echo, hi]}}")


def test_a_workflow_with_a_mistake_makes_no_run(small: Project, capsys: pytest.CaptureFixture[str]) -> None:
    small.workflow("stages: {a: {command: [echo, '${{ nobody }}']}}")
    said = call(capsys, "run", "flow.yaml")
    assert said.code == 2
    assert "flow.yaml:3:" in said.err
    assert "nobody" in said.err
    assert small.runs() == 0


def test_bad_usage_is_exit_code_2_and_makes_no_run(
    small: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ["run", "no-such-file.yaml"],
        ["run", "flow.yaml", "--from", "nowhere"],
        ["run", "flow.yaml", "--set", "hp.nothing=1"],
        ["run", "flow.yaml", "--site", "nowhere"],
        ["run", "flow.yaml", "--runs", "flow.yaml"],
        ["run"],
        ["resume"],
        ["resume", "flow-1"],
    ):
        assert call(capsys, *words).code == 2
    assert small.runs() == 0


def test_a_run_directory_that_cannot_be_written_is_said(
    small: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    (small.folder / "runs").write_text("a file")
    said = call(capsys, "run", "flow.yaml")
    assert (said.code, "runs" in said.err) == (2, True)


def test_runs_count_up_and_go_where_asked(small: Project) -> None:
    assert [small.run().id for _ in range(2)] == ["flow-1", "flow-2"]
    small.diel("run", "flow.yaml", "--runs", "elsewhere/deep")
    assert os.listdir(small.folder / "elsewhere" / "deep") == ["flow-1"]


def test_a_run_needs_no_open_streams(small: Project) -> None:
    for streams in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        command = f"exec {sys.executable} -m diel run flow.yaml --no-cache {streams}"
        done = subprocess.run(
            command, shell=True, cwd=small.folder, env=small.environment(), capture_output=True, check=False
        )
        assert done.returncode == 0, (streams, done.stderr)
        assert small.newest().stdout("a") == "hi\n"
    assert small.runs() == 4


def test_a_run_needs_no_name_for_its_user(small: Project) -> None:
    program = (
        "import pwd\ndef unknown(number): raise KeyError('uid not found')\npwd.getpwuid = unknown\n"
        "from diel.cli import main\nmain(['run', 'flow.yaml'])"
    )
    names = ("LOGNAME", "USER", "LNAME", "USERNAME")
    environment = {k: v for k, v in small.environment().items() if k not in names}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=small.folder, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert small.newest().history().state == "succeeded"
