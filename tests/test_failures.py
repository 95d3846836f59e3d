"""How tasks fail: each in its own way, told apart, and never taking anything else down with them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.throwaway import Project, Run

COMMANDS = """
    axes:
      n: {range: 3}
      many: {range: 30000}
    stages:
      code: {command: "echo to out; echo to err >&2; exit 42"}
      in_a_file: {command: "echo 'Fatal error: the mesh is empty' > flow.out; echo MPI_ABORT was invoked >&2; exit 1"}
      above_128: {command: "exit 139"}
      far_above: {command: "exit 255"}
      signal: {command: [sh, -c, "kill -SEGV $$"]}
      abort: {command: [sh, -c, "kill -ABRT $$"]}
      no_program: {command: [no-such-program-here, -v], retries: {limit: 1, backoff: 0s}}
      no_path: {command: [./not-here]}
      not_executable: {command: ["${{ files.data }}"], files: {data: data.txt}}
      no_interpreter: {command: ["${{ files.data }}"], files: {data: script}}
      folder: {command: [/tmp]}
      shell_no_program: {command: no-such-program-here}
      shell_first_of_two: {command: "false\\necho not reached"}
      missing: {command: "echo 1 > other.txt", outputs: {table: table.csv}}
      result_is_folder: {command: 'mkdir "$DIEL_RESULT"'}
      by_link: {command: "ln -s /etc/passwd table.csv", outputs: {table: table.csv}}
      unreadable: {command: "echo 1 > table.csv; chmod 0 .; true", outputs: {table: table.csv}}
      own_folder: {command: "rm -rf \\"$DIEL_TASK_DIR\\"; echo gone"}
      own_folder_needed: {command: "rm -rf \\"$DIEL_TASK_DIR\\"", outputs: {table: table.csv}}
      silent: {command: "true"}
      noisy: {command: "head -c 50000000 /dev/zero | tr '\\\\0' x; head -c 100000 /dev/zero | tr '\\\\0' e >&2; exit 3"}
      long_list: {over: [], command: [echo, "${{ make.x }}"]}
      make: {over: [n], module: "ways:text"}
      make_long: {over: [n], module: "ways:long"}
      too_long_word: {command: [echo, "${{ make_long.x }}"]}
      too_long_list: {command: [echo, "${{ make_words.x }}"]}
      make_words: {module: "ways:words"}
      too_long_shell: {command: "echo ${{ make_words.x }}"}
      long_but_read: {command: 'wc -c < "$DIEL_INPUTS"', inputs: {many: make_long.many}}
      no_output: {command: [echo, "${{ make_long.nothing }}"]}
      zero_division: {over: [n], command: [echo, "${{ 1 / n }}"]}
      escapes: {over: [n], command: "true", outputs: {x: "${{ '../' * n + 'x' }}"}}
"""
WAYS = """
    import os
    import sys
    import time
    import ctypes
    import threading
    from pathlib import Path
    from typing import Any

    import numpy

    @diel.module(kind="analysis")
    def text() -> dict:
        return {"x": "x"}

    @diel.module(kind="analysis")
    def long():
        return {"x": "x" * 200_000, "many": ["f"] * 100_000}

    @diel.module(kind="analysis")
    def words():
        return {"x": [""] * 250_000}

    @diel.module(kind="analysis")
    def raises() -> dict:
        print("before")
        raise RuntimeError("two\\nlines é")

    @diel.module(kind="analysis")
    def surrogate() -> dict:
        raise RuntimeError("bad \\udcff byte")

    @diel.module(kind="analysis")
    def interrupted() -> dict:
        raise KeyboardInterrupt

    @diel.module(kind="analysis")
    def exits_well() -> dict:
        sys.exit(0)

    @diel.module(kind="analysis")
    def group() -> dict:
        raise ExceptionGroup("several", [ValueError("one"), TypeError("two")])

    @diel.module(kind="analysis")
    def deep() -> dict:
        return deep()

    @diel.module(kind="analysis")
    def not_there():
        return {"x": Path("nothing.txt")}

    @diel.module(kind="analysis")
    def noisy():
        sys.stdout.write("x" * 50_000_000)
        print("last words", file=sys.stderr)
        raise RuntimeError("noisy")

    @diel.module(kind="analysis")
    def closes():
        os.close(1); os.close(2)
        return {"x": 1}

    @diel.module(kind="analysis")
    def closes_python():
        sys.stdout.close(); sys.stderr.close()
        return {"x": 1}

    @diel.module(kind="analysis")
    def removes_folder():
        import shutil
        shutil.rmtree(Path.cwd())
        return {"x": 1}

    @diel.module(kind="analysis")
    def thread():
        threading.Thread(target=time.sleep, args=(600,)).start()
        return {"x": 1}

    @diel.module(kind="analysis")
    def fork():
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        return {"x": 1}

    @diel.module(kind="analysis")
    def signals():
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return {"x": 1}
"""
LINES = (
    "raises", "surrogate", "interrupted", "exits_well", "group", "deep", "not_there", "noisy", "closes",
    "closes_python", "removes_folder", "thread", "fork", "signals",
)  # fmt: skip


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Run:
    project = Project(tmp_path_factory.mktemp("commands")).workflow(COMMANDS).module("ways", WAYS)
    (project.folder / "data.txt").write_text("data")
    (project.folder / "script").write_text("#!/no/such/interpreter\n")
    (project.folder / "script").chmod(0o755)
    return project.run(code=1)


@pytest.mark.parametrize(
    ("stage", "kind", "code", "message"),
    [
        ("code", "app", 42, "exit code 42"),
        ("above_128", "app", 139, "SIGSEGV"),
        ("far_above", "app", 255, "exit code 255"),
        ("signal", "app", 139, "SIGSEGV"),
        ("abort", "app", 134, "SIGABRT"),
        ("no_program", "launch", None, "no program 'no-such-program-here' on PATH"),
        ("no_path", "launch", None, "./not-here"),
        ("not_executable", "launch", None, "data.txt"),
        ("no_interpreter", "launch", None, "script"),
        ("folder", "launch", None, "/tmp"),
        ("shell_no_program", "app", 127, "command not found"),
        ("shell_first_of_two", "app", 1, "exit code 1"),
        ("missing", "app", 0, "output 'table': no file 'table.csv'; the task wrote other.txt"),
        ("result_is_folder", "app", 0, "DIEL_RESULT cannot be read"),
        ("by_link", "app", 0, "outside the task's directory"),
        ("own_folder_needed", "app", 0, "no file 'table.csv'"),
        ("noisy", "app", 3, "exit code 3"),
        ("too_long_word", "launch", None, "DIEL_INPUTS"),
        ("too_long_list", "launch", None, "DIEL_INPUTS"),
        ("too_long_shell", "launch", None, "DIEL_INPUTS"),
        ("no_output", "upstream", None, "make_long/0 (n=0) made no 'nothing'; it made: x, many"),
        ("zero_division", "upstream", None, "division by zero"),
    ],
)
def test_a_command_that_fails_says_how(
    commands: Run, stage: str, kind: str, code: int | None, message: str
) -> None:
    failure = commands.failure(stage)
    assert (failure["class"], failure.get("exit_code")) == (kind, code)
    assert message in failure["message"]
    assert len(failure["message"]) < 500


def test_the_failure_keeps_the_end_of_standard_error(commands: Run) -> None:
    assert commands.failure("code")["stderr_tail"] == "to err\n"
    assert commands.stdout("code") == "to out\n"
    assert commands.failure("noisy")["stderr_tail"] == "e" * 4096
    assert (commands.task_dir("noisy") / "stdout").stat().st_size == 50_000_000


def test_the_cause_is_found_where_the_command_wrote_it(commands: Run) -> None:
    assert commands.failure("in_a_file")["headline"] == "Fatal error: the mesh is empty (in flow.out)"


def test_what_cannot_start_is_tried_as_often_as_asked(commands: Run) -> None:
    assert commands.attempts("no_program") == [1, 2]
    assert commands.attempts("no_path") == [1]


def test_a_long_gather_can_be_read_from_its_file(commands: Run) -> None:
    assert int(commands.stdout("long_but_read")) > 300_000


def test_an_output_path_from_an_expression_stays_inside(commands: Run) -> None:
    for index in (1, 2):
        failure = commands.failure("escapes", index)
        assert "leaves the task's directory" in failure["message"]
    assert commands.attempts("escapes", 1) == []


def test_a_task_may_remove_its_own_directory(commands: Run) -> None:
    assert commands.counts("own_folder") == {"done": 1}


def test_the_others_are_done(commands: Run) -> None:
    assert commands.counts("make") == {"done": 3}
    assert commands.counts("zero_division") == {"failed": 1, "done": 2}
    assert commands.history().state == "failed"
    assert not commands.processes()


# --- Python modules ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Run:
    stages = "".join(f"      {name}: {{module: 'ways:{name}'}}\n" for name in LINES)
    broken = """
      import_fails: {module: breaks}
      import_exits: {module: leaves}
"""
    project = Project(tmp_path_factory.mktemp("modules")).workflow(f"    stages:\n{stages}{broken}")
    project.module("ways", WAYS)
    function = '\n@diel.module(kind="analysis")\ndef {0}() -> dict:\n    return {{}}\n'
    project.module("breaks", "__import__('no_such_package')\n" + function.format("breaks"))
    project.module("leaves", "raise SystemExit(3)\n" + function.format("leaves"))
    return project.run(code=1)


@pytest.mark.parametrize(
    ("stage", "kind", "message"),
    [
        ("raises", "app", "RuntimeError: two\nlines é"),
        ("surrogate", "app", "RuntimeError: bad"),
        ("interrupted", "app", "KeyboardInterrupt"),
        ("exits_well", "app", "SystemExit: 0"),
        ("group", "app", "ExceptionGroup: several"),
        ("deep", "app", "RecursionError"),
        ("not_there", "app", "no file 'nothing.txt'"),
        ("noisy", "app", "RuntimeError: noisy"),
        (
            "import_fails",
            "launch",
            "breaks.py cannot be imported: ModuleNotFoundError: No module named 'no_such_package'",
        ),
        ("import_exits", "launch", "leaves.py cannot be imported: SystemExit: 3"),
    ],
)
def test_a_module_that_fails_says_how(modules: Run, stage: str, kind: str, message: str) -> None:
    failure = modules.failure(stage)
    assert failure["class"] == kind
    assert message in failure["message"]
    assert modules.attempts(stage) == [1]


def test_the_traceback_is_the_modules_own(modules: Run) -> None:
    text = modules.stderr("raises")
    assert text.startswith("Traceback")
    assert "ways.py" in text
    assert "diel/worker" not in text
    assert modules.failure("raises")["stderr_tail"] == text
    assert modules.stdout("raises") == "before\n"


def test_a_module_may_print_much(modules: Run) -> None:
    assert (modules.task_dir("noisy") / "stdout").stat().st_size == 50_000_000
    assert modules.failure("noisy")["stderr_tail"].startswith("last words\n")


@pytest.mark.parametrize("stage", ["closes", "closes_python", "removes_folder", "thread", "fork", "signals"])
def test_a_module_that_misbehaves_keeps_its_result(modules: Run, stage: str) -> None:
    assert modules.value(stage, "x") == 1
    assert modules.attempts(stage) == [1]


def test_nothing_of_it_is_left(modules: Run) -> None:
    assert not modules.processes()
    assert modules.history().state == "failed"


# --- workers that die -------------------------------------------------------------------------

DEATHS = """
    axes:
      n: {range: 8}
    stages:
      exits: {module: "deaths:exits"}
      segfault: {module: "deaths:segfault"}
      orphan: {module: "deaths:orphan"}
      once: {module: "deaths:once", retries: 0}
      beside: {over: [n], module: "deaths:beside", params: {n: "${{ n }}"}}
      outlives:
        command: |
          mkdir -p "$DIEL_CHECKPOINT_DIR"
          if [ "$DIEL_ATTEMPT" = 2 ]; then
            ! grep -s "State:.[RSDT]" "/proc/$(cat "$DIEL_CHECKPOINT_DIR/pid")/status"
            exit 0
          fi
          echo $$ > "$DIEL_CHECKPOINT_DIR/pid"
          kill -9 $PPID
          sleep 600
"""
DEATHS_MODULE = """
    import ctypes
    import os
    import time
    from pathlib import Path

    @diel.module(kind="analysis")
    def exits() -> dict:
        os._exit(9)

    @diel.module(kind="analysis")
    def segfault() -> dict:
        return {"x": ctypes.string_at(0)}

    @diel.module(kind="analysis")
    def orphan() -> dict:
        if os.fork() == 0:
            time.sleep(600)
        return {"x": ctypes.string_at(0)}

    @diel.module(kind="analysis")
    def once(context: diel.Context) -> dict:
        if context.attempt == 1:
            os.kill(os.getpid(), 9)
        return {"attempt": context.attempt}

    @diel.module(kind="analysis")
    def beside(n: int) -> dict:
        return {"n": n}
"""


def test_a_module_that_ends_its_worker_takes_no_other_task_with_it(tmp_path: Path) -> None:
    run = Project(tmp_path).workflow(DEATHS).module("deaths", DEATHS_MODULE).run(code=1)
    assert run.values("beside", "n") == list(range(8))
    assert all(run.attempts("beside", n) == [1] for n in range(8))
    assert run.values("once", "attempt") == [2]
    assert run.attempts("outlives") == [1, 2]
    assert not (run.task_dir("outlives", 0, 2) / "stdout").exists()
    for stage in ("exits", "segfault", "orphan"):
        failure = run.failure(stage)
        assert failure["class"] == "node"
        assert "worker was lost" in failure["message"]
        assert run.attempts(stage) == [1, 2, 3, 4, 5, 6]
    assert not run.processes()


# --- retries and timeouts ---------------------------------------------------------------------

RETRIES = """
    axes: {n: {range: 2}}
    stages:
      third: {module: "tries:third", params: {wanted: 3}, retries: {limit: 5, backoff: 100ms}}
      never: {over: [n], command: 'echo "$DIEL_ATTEMPT"; ls > found; touch mark; exit ${{ 1 - n }}', retries: {limit: 2, backoff: 500ms}}
      command:
        command: |
          mkdir -p "$DIEL_CHECKPOINT_DIR"
          echo "$DIEL_ATTEMPT" >> "$DIEL_CHECKPOINT_DIR/seen"
          [ ! -e mark ] || exit 9
          touch mark
          [ "$DIEL_ATTEMPT" = 2 ]
          cp "$DIEL_CHECKPOINT_DIR/seen" seen
        outputs: {seen: seen}
        retries: {limit: 1, backoff: 0s}
      after: {command: [cat, "${{ command.seen }}"]}
"""
TRIES = """
    from pathlib import Path

    @diel.module(kind="analysis")
    def third(wanted: int, context: diel.Context) -> dict:
        found = sorted(p.name for p in Path.cwd().iterdir())
        Path("mark").touch()
        if context.attempt < wanted:
            raise RuntimeError(f"attempt {context.attempt}")
        return {"attempt": context.attempt, "found": found, "folder": Path.cwd().name}
"""


def test_a_retry_waits_and_begins_in_a_clean_directory(tmp_path: Path) -> None:
    run = Project(tmp_path).workflow(RETRIES).module("tries", TRIES).run(code=1)
    assert run.results("third")[0]["values"] == {"attempt": 3, "found": [], "folder": "0.3"}
    assert run.results("third")[0]["attempt"] == 3
    assert run.attempts("never") == [1, 2, 3]
    assert run.attempts("never", 1) == [1]
    assert run.failure("never")["attempt"] == 3
    times = [float(r["time"]) for r in run.records("start", "never") if r["index"] == 0]
    ends = sorted(float(r["time"]) for r in run.records("fail", "never"))
    assert sorted(times)[1] - ends[0] >= 0.5
    assert sorted(times)[2] - ends[1] >= 1.0
    for attempt in (1, 2, 3):
        assert run.stdout("never", 0, attempt) == f"{attempt}\n"
        assert (run.task_dir("never", 0, attempt) / "found").read_text() == "found\n"
    assert run.stdout("after") == "1\n2\n"
    assert run.artifact("command", "seen").parent.name == "0.2"


TIMEOUTS = """
    stages:
      family:
        command: |
          sh -c 'sleep 901 & sleep 902' &
          sleep 900
        timeout: 1s
      deaf: {command: [sh, -c, "trap '' TERM INT HUP; while :; do sleep 1; done"], timeout: 1s}
      escapee: {command: "setsid sh -c 'trap \\"\\" TERM; sleep 903; sleep 904' & sleep 905", timeout: 1s}
      stopped: {command: [sh, -c, "kill -STOP $$; sleep 906"], timeout: 1s}
      says: {command: [sh, -c, "trap 'echo goodbye; exit 0' TERM; sleep 907 & wait"], timeout: 1s}
      again: {command: [sh, -c, '[ "$DIEL_ATTEMPT" = 2 ] || sleep 908'], timeout: 1s, retries: {limit: 1, backoff: 0s}}
      python: {module: "hangs:sleeps", timeout: 1s}
      children: {module: "hangs:children", timeout: 1s}
      loop: {module: "hangs:loop", timeout: 1s}
      daemon: {module: "hangs:daemon", timeout: 1s}
      deaf_python: {module: "hangs:deaf", timeout: 1s}
      catches: {module: "hangs:catches", timeout: 1s}
      in_time: {module: "hangs:in_time", timeout: 30s}
      after: {command: [echo, fine], after: [in_time]}
"""
HANGS = """
    import ctypes
    import os
    import re
    import signal
    import subprocess
    import time

    @diel.module(kind="analysis")
    def sleeps() -> dict:
        print("asleep", flush=True)
        time.sleep(600)
        return {}

    @diel.module(kind="analysis")
    def children() -> dict:
        subprocess.Popen(["setsid", "sleep", "909"])
        subprocess.run(["sh", "-c", "trap '' TERM; sleep 910; sleep 911"])
        return {}

    @diel.module(kind="analysis")
    def daemon() -> dict:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(600)
            os._exit(0)
        time.sleep(600)
        return {}

    @diel.module(kind="analysis")
    def loop() -> dict:
        while True:
            pass

    @diel.module(kind="analysis")
    def deaf() -> dict:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        time.sleep(600)
        return {}

    @diel.module(kind="analysis")
    def catches() -> dict:
        while True:
            try:
                time.sleep(600)
            except BaseException:
                pass

    @diel.module(kind="analysis")
    def in_time(context: diel.Context) -> dict:
        return {"left": context.time_left}

    @diel.module(kind="analysis")
    def holds_the_lock() -> dict:
        ctypes.PyDLL(None).sleep(600)
        return {}

    @diel.module(kind="analysis")
    def backtracks() -> dict:
        re.match(r"(a+)+$", "a" * 32 + "b")
        return {}
"""


def test_a_timeout_ends_a_task_with_all_its_processes(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(TIMEOUTS).module("hangs", HANGS)
    began = time.monotonic()
    run = project.run(code=1)
    assert time.monotonic() - began < 300
    hung = "family deaf escapee stopped says python children loop daemon deaf_python catches"
    for stage in hung.split():
        failure = run.failure(stage)
        assert failure["class"] == "timeout", stage
        assert failure["message"].startswith("ran longer than its timeout of 1 s")
        assert run.attempts(stage) == [1], stage
        seconds = [r["seconds"] for r in run.records("fail", stage)]
        assert 1 <= seconds[0] < 60, stage
    assert run.attempts("again") == [1, 2]
    assert run.counts("again") == {"done": 1}
    assert 0 < run.value("in_time", "left") <= 30
    assert run.stdout("after") == "fine\n"
    assert run.stdout("says") == "goodbye\n"
    assert run.stdout("python") == "asleep\n"
    assert not run.processes()


@pytest.mark.parametrize("function", ["holds_the_lock", "backtracks"])
def test_a_timeout_ends_a_function_that_never_gives_up_the_interpreter(tmp_path: Path, function: str) -> None:
    text = f"""
    stages:
      stuck: {{module: "hangs:{function}", timeout: 1s}}
      other: {{command: [echo, fine], after: [stuck]}}
    """
    began = time.monotonic()
    run = Project(tmp_path).workflow(text).module("hangs", HANGS).run(code=1)
    assert time.monotonic() - began < 120
    assert run.failure("stuck")["class"] == "timeout"
    assert run.attempts("stuck") == [1]
    assert run.counts("other") == {"skipped": 1}
    assert not run.processes()


def test_the_tests_own_directory_can_be_read(commands: Run) -> None:
    """`unreadable` took its directory's permissions away; give them back so that it can be removed."""
    for path in (commands.root / "tasks").glob("*/*"):
        os.chmod(path, 0o700)


def test_a_failure_at_the_head_of_a_long_chain_of_stages_is_the_runs(tmp_path: Path) -> None:
    """Longer than Python lets functions call each other, three for each stage."""
    chain = [f"  s{number}: {{command: ['true'], after: [s{number - 1}]}}" for number in range(1, 400)]
    project = Project(tmp_path).workflow("\n".join(["stages:", "  s0: {command: ['false']}", *chain]))
    assert "1 failed, 399 skipped" in project.diel("run", "flow.yaml", "--quiet", code=1)


MAKERS = """
    axes: {g: {values: [1, 2]}, cut: {from: make.cuts}, whole: {from: all.cuts}}
    stages:
      pre: {over: [g], command: 'test ${{ g }} = 1'}
      make: {over: [g], after: [pre], command: 'echo "{\\"cuts\\": [1, 2]}" > "$DIEL_RESULT"', outputs: {cuts: {value: list}}}
      use: {over: [g, cut], command: 'echo "{\\"x\\": ${{ cut }}}" > "$DIEL_RESULT"', outputs: {x: {value: int}}}
      read: {over: [g], inputs: {x: use.x}, command: 'echo ${{ join(inputs.x) }}'}
      all: {command: 'exit 3', outputs: {cuts: {value: list}}}
      each: {over: [whole], command: 'echo "{\\"x\\": ${{ whole }}}" > "$DIEL_RESULT"', outputs: {x: {value: int}}}
      sum: {command: [echo, "${{ sum(each.x) }}"]}
"""


def test_who_reads_points_that_were_never_made_is_told_which_task_was_to_make_them(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(MAKERS)
    run = project.run(code=1)
    assert run.stdout("read", 0) == "1 2\n"
    said = project.diel("explain", run.id)
    assert "'use', which they read, has no result (it began with pre/1 (g=2))" in said
    assert "'each', which they read, has no result (it began with all/0)" in said
    said = project.diel("explain", run.id, "read/1")
    assert "what makes the points of 'use' has no result: make/1 (g=2) skipped" in said
    assert "it began with pre/1 (g=2)" in said
    said = project.diel("explain", run.id, "sum/0")
    assert "what makes the points of 'each' has no result: all/0 failed" in said


def test_what_a_namelist_cannot_hold_fails_its_task_and_says_how_to_leave_it_out(tmp_path: Path) -> None:
    text = """
    axes: {n: {values: [.nan, 1.5]}}
    stages:
      all: {over: [n], command: 'echo ${{ fortran(n) }}'}
      finite: {over: [n], when: abs(n) < 1e300, command: 'echo ${{ fortran(n) }}'}
    """
    run = Project(tmp_path).workflow(text).run(code=1)
    assert "no form for nan" in run.failure("all")["message"]
    assert "leave it out, by `when:" in run.failure("all")["message"]
    assert (run.counts("all"), run.counts("finite")) == ({"done": 1, "failed": 1}, {"done": 1, "skipped": 1})
