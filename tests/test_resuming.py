"""Going on with a run: what was lost is run again, what has a result is not, and only one may drive."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diel.controller.controller import STOP_SECONDS
from tests.throwaway import Project, Run, wait_for

FAILS = """
    axes: {n: {range: 4}, part: {from: split.parts}}
    stages:
      first: {over: [n], module: "steps:first", params: {n: "${{ n }}"}, outputs: {n: {}}}
      maybe:
        over: [n]
        command: |
          touch mark
          echo ${{ task.index }} ${{ first.n }} > out
          test -e "$DIEL_RUN_DIR/../../mended" -o ${{ n }} != 2
        outputs: {out: out}
        retries: {limit: 1, backoff: 0s}
      after: {over: [n], command: [cat, "${{ maybe.out }}"]}
      all: {command: "cat ${{ maybe.out }} > all", outputs: {all: all}}
      split: {command: 'cat ${{ all.all }}; echo "{\\"parts\\": [1, 2]}" > "$DIEL_RESULT"', outputs: {parts: {value: list}}}
      parts: {over: [part], command: [echo, "${{ part }}"]}
      left_out: {over: [n], when: "n > 2", command: [echo, "${{ n }}"]}
"""
STEPS = """
    @diel.module(kind="analysis")
    def first(n: int) -> dict:
        return {"n": n * 10}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path).workflow(FAILS).module("steps", STEPS)


def test_a_failed_run_tries_again_what_failed_and_what_waited_for_it(project: Project) -> None:
    run = project.run(code=1)
    assert run.counts("maybe") == {"done": 3, "failed": 1}
    assert run.counts("after") == {"done": 3, "skipped": 1}
    assert run.counts("all") == {"skipped": 1}

    project.diel("resume", code=1)  # nothing has changed: it fails again
    assert run.attempts("maybe", 2) == [1, 2, 3, 4]
    bundles = [record["bundle"] for record in run.records("queued")]
    assert len(set(bundles)) == len(bundles), "a late worker may speak of an earlier controller's"
    assert run.counts("after") == {"done": 3, "skipped": 1}

    (project.folder / "mended").touch()
    project.diel("resume", run.id)
    assert run.history().state == "succeeded"
    assert run.counts("left_out") == {"done": 1, "skipped": 3}
    assert run.attempts("maybe", 2) == [1, 2, 3, 4, 5]
    assert run.artifact("maybe", "out", 2).parent.name == "2.5"
    assert run.stdout("after", 2) == "2 20\n"
    assert run.artifact("all", "all").read_text() == "0 0\n1 10\n2 20\n3 30\n"
    assert [run.stdout("parts", n) for n in range(2)] == ["1\n", "2\n"]
    for stage in ("first", "maybe", "after", "left_out"):
        done = [n for n in range(4) if run.attempts(stage, n)]
        assert all(run.attempts(stage, n) == [1] for n in done if (stage, n) not in {("maybe", 2)})
    workers = run.workers()

    project.diel("resume", run.id)  # nothing is left: no harm, and no worker
    assert run.history().state == "succeeded"
    assert run.workers() == workers
    assert project.runs() == 1


REMOVED = """
    axes: {n: {range: 3}}
    stages:
      grown: {over: [n], command: 'echo ${{ n }} > seed', outputs: {seed: seed}}
      made: {over: [n], command: 'cat ${{ grown.seed }} > out', outputs: {out: out}}
      reads:
        over: [n]
        command: |
          cat ${{ made.out }}
          test -e "$DIEL_RUN_DIR/../../mended" -o ${{ n }} = 0
"""


TOLERANT = """
    axes: {n: {range: 4}}
    stages:
      work: {over: [n], command: 'test ${{ n }} != 2; echo "{\\"v\\": ${{ n }}}" > "$DIEL_RESULT"', outputs: {v: {value: int}}}
      each: {over: [n], command: 'echo "{\\"v\\": ${{ work.v }}}" > "$DIEL_RESULT"', outputs: {v: {value: int}}}
      total: {command: [echo, "${{ inputs.v }}"], inputs: {v: {from: each.v, min_success: 0.75}}}
"""


def test_what_min_success_tolerates_is_named_and_no_failure_of_the_run(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(TOLERANT)
    run = project.run()
    assert (run.history().state, run.counts("work")) == ("succeeded", {"done": 3, "failed": 1})
    said = project.diel("status", "--exit-code")
    assert "(tolerated by `min_success` of 'total')" in said
    took = said.splitlines()[0].rpartition(" · ")[2]
    before = run.records()
    assert "nothing to do" in project.diel("resume", run.id)
    assert (run.records(), project.diel("status").splitlines()[0].rpartition(" · ")[2]) == (before, took)


HEALED = """
    axes: {n: {range: 4}}
    stages:
      work: {over: [n], command: 'test -e "$DIEL_RUN_DIR/../../mended" -o ${{ n }} != 2; echo "{\\"v\\": ${{ n }}}" > "$DIEL_RESULT"', outputs: {v: {value: int}}}
      each: {over: [n], command: 'echo "{\\"v\\": ${{ work.v }}}" > "$DIEL_RESULT"', outputs: {v: {value: int}}}
      last: {over: [n], command: [echo, "${{ each.v }}"]}
      total: {command: 'echo ${{ inputs.v }} | tee list', inputs: {v: {from: each.v, min_success: 0.75}}, outputs: {list: {path: list, keep: false}}}
      seen: {command: 'cat ${{ total.list }}'}
      apart: {command: 'echo ${{ inputs.v }}', inputs: {v: {from: work.v, at: {n: 0}}}}
"""


def test_what_went_on_without_a_failed_task_is_made_again_when_others_have_it_tried_again(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path).workflow(HEALED)
    run = project.run(code=1)
    assert run.history().state == "failed", "one of 'last' needs what 'total' did without"
    assert (run.stdout("total"), run.stdout("seen")) == ("0 1 3\n", "0 1 3\n")
    project.diel("resume", code=1)
    assert run.stdout("seen", 0, 2) == "0 1 3\n"
    (tmp_path / "mended").touch()
    assert "total/0, seen/0 went on without what is still to come" in project.diel("resume")
    assert (run.stdout("total", 0, 3), run.stdout("seen", 0, 3)) == ("0 1 2 3\n", "0 1 2 3\n")
    assert run.history().state == "succeeded"
    assert run.attempts("apart", 0) == [1]


def test_results_whose_directories_were_removed_are_made_again_where_they_are_read(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(REMOVED)
    run = project.run(code=1)
    assert run.counts("reads") == {"done": 1, "failed": 2}
    for stage, index in (("grown", 0), ("grown", 1), ("made", 0), ("made", 1)):
        shutil.rmtree(run.task_dir(stage, index))
    (project.folder / "mended").touch()
    said = project.diel("resume")
    assert "of grown/1: it is gone; made/1, grown/1 will run again" in said
    assert run.history().state == "succeeded"
    assert [run.attempts("made", n) for n in range(3)] == [[1], [1, 2], [1]], "task 0 has no reader left"
    assert [run.attempts("grown", n) for n in range(3)] == [[1], [1, 2], [1]]
    assert run.stdout("reads", 1, 2) == "1\n"
    assert project.diel("results", "last", "made").count("1.2/out") == 1


def test_a_changed_workflow_file_does_not_change_a_run(project: Project) -> None:
    run = project.run(code=1)
    (project.folder / "mended").touch()
    project.workflow("stages: {other: {command: [echo, other]}}")
    project.diel("resume")
    assert run.history().state == "succeeded"
    assert "other" not in run.history().stages


RAGGED = """
    axes:
      a: {values: [1, 2, 3]}
      part: {from: split.parts}
    stages:
      split: {over: [a], module: "steps:split", params: {count: "${{ a }}"}}
      use: {over: [a, part], module: "steps:use", params: {a: "${{ a }}", part: "${{ part }}"}}
      back: {over: [a], module: "steps:use", inputs: {part: use.got}}
      all: {module: "steps:use", params: {a: 0}, inputs: {part: use.got}}
"""
SPLIT = """
    from typing import Any

    @diel.module(kind="analysis")
    def split(count: int, context: diel.Context) -> dict:
        if count == 2 and not (context.run_dir.parent.parent / "mended").exists():
            raise ValueError("not yet")
        return {"parts": [f"{count}.{n}" for n in range(count)]}

    @diel.module(kind="analysis")
    def use(a: int, part: Any) -> dict:
        return {"got": part}
"""


def test_an_axis_holds_for_its_run_and_is_made_more_fully_by_the_next(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(RAGGED).module("steps", SPLIT)
    run = project.run(code=1)
    made = ["1.0", "3.0", "3.1", "3.2"]
    assert (run.values("use", "got"), run.values("back", "got")) == (made, [made[:1], made[1:]])
    assert (run.counts("back"), run.counts("all")) == ({"done": 2, "skipped": 1}, {"skipped": 1})
    (project.folder / "mended").touch()
    project.diel("resume", code=1)
    assert run.values("use", "got") == made
    assert run.counts("split") == {"done": 2, "failed": 1}
    assert "`diel run` tries it again" in run.records("failed")[-1]["message"]
    anew = project.run()
    assert anew.value("all", "got") == ["1.0", "2.0", "2.1", "3.0", "3.1", "3.2"]
    assert anew.counts("split") == {"cached": 2, "done": 1}
    assert anew.counts("use") == {"cached": 4, "done": 2}


SLOW = """
    axes: {n: {range: 3}}
    stages:
      quick: {over: [n], command: [sh, -c, 'echo "{\\"pid\\": $$}" > "$DIEL_RESULT"'], outputs: {pid: {value: int}}}
      slow:
        command: |
          echo $$ >> "$DIEL_RUN_DIR/../../pids"
          setsid sleep 600 &
          until test -e "$DIEL_RUN_DIR/../../go"; do sleep 0.05; done
        after: [quick]
      python: {module: "steps:waits", after: [quick]}
      end: {command: [echo, end], after: [slow, python]}
"""
WAITS = """
    import os
    import time
    from pathlib import Path

    @diel.module(kind="analysis")
    def waits(context: diel.Context) -> dict:
        folder = context.run_dir.parent.parent
        with open(folder / "pids", "a") as file:
            file.write(f"{os.getpid()}\\n")
        while not (folder / "go").exists():
            time.sleep(0.05)
        return {}
"""


def begun(project: Project, times: int) -> bool:
    """Whether both slow tasks have begun so often."""
    path = project.folder / "pids"
    return path.exists() and len(path.read_text().splitlines()) == 2 * times


def started(project: Project, *words: str, times: int = 1) -> subprocess.Popen[str]:
    process = project.start(*words)
    wait_for(lambda: begun(project, times))
    return process


@pytest.fixture
def slow(tmp_path: Path) -> Project:
    return Project(tmp_path).workflow(SLOW).module("steps", WAITS)


def check_went_on(project: Project, run: Run) -> None:
    """The run ends well in a second controller, and nothing of the first is left."""
    old = {process.pid for process in run.processes()}
    process = started(project, "resume", times=2)
    assert not old & {p.pid for p in run.processes() if p.pid != process.pid}
    (project.folder / "go").touch()
    project.end(process)
    assert run.history().state == "succeeded"
    assert all(run.attempts("quick", n) == [1] for n in range(3))
    assert run.attempts("slow") == run.attempts("python") == [1, 2]
    assert not run.processes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_leaves_nothing_behind_and_goes_on(slow: Project, number: signal.Signals) -> None:
    process = started(slow, "run", "flow.yaml")
    run = slow.newest()
    asked = time.monotonic()
    process.send_signal(number)
    said = slow.end(process, 130)
    assert time.monotonic() - asked < STOP_SECONDS
    assert run.history().state == "interrupted"
    assert f"{run.id} interrupted" in said
    assert f"diel resume {run.id}" in said
    assert not run.processes()
    check_went_on(slow, run)


STUCK = """
import time
from diel.cli import main
from diel.backends.blocks.local import Pipes

def stop(self):
    while True:
        time.sleep(0.05)  # a lock would not see a signal that comes just before it waits

Pipes.stop = stop
main()
"""


@pytest.mark.parametrize("stuck", [False, True])
def test_two_interrupts_are_as_good_as_one(slow: Project, stuck: bool) -> None:
    """Also if the first one's end takes for ever."""
    program = slow.folder / "program.py"
    program.write_text(STUCK if stuck else "from diel.cli import main; main()")
    words = [sys.executable, "-u", str(program), "run", "flow.yaml"]
    process = subprocess.Popen(
        words, cwd=slow.folder, env=slow.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: begun(slow, 1))
    run = slow.newest()
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    while "once more to leave at once" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    slow.end(process, None)
    assert process.returncode in ((130,) if stuck else (130, -signal.SIGINT))  # which are one to a shell
    wait_for(lambda: not run.processes())
    check_went_on(slow, run)


def stepped(made: Project, stat: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`diel` on a machine whose clock has made a step of five seconds since its processes began."""
    stat.write_text(
        re.sub(r"btime (\d+)", lambda m: f"btime {int(m[1]) + 5}", Path("/proc/stat").read_text())
    )
    see = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /proc/stat && exec "$@"', str(stat)]
    return subprocess.run(
        [*see, sys.executable, "-m", "diel", *words],
        cwd=made.folder,
        env=made.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can show a process another clock")
def test_a_run_whose_machine_got_another_time_is_neither_removed_nor_taken_over(tmp_path: Path) -> None:
    made = Project(tmp_path).workflow("""
        axes: {n: {range: 2}}
        stages: {hold: {over: [n], command: 'until test -e "$DIEL_RUN_DIR/go"; do sleep 0.1; done'}}
    """)
    process = made.start("run", "flow.yaml")
    wait_for((tmp_path / "runs/flow-1/tasks/hold/1").exists)
    answers = [stepped(made, tmp_path / "stat", *words) for words in (("clean", "-y", "flow-1"), ("resume",))]
    if "unshare:" in answers[0].stderr or "mount:" in answers[0].stderr:
        pytest.skip(f"no other clock can be shown here: {answers[0].stderr.strip()}")
    (made.newest().root / "go").touch()
    made.end(process)
    assert [answer.returncode for answer in answers] == [2, 2]
    assert "flow-1 is running" in answers[0].stderr
    assert "flow-1 is driven by process" in answers[1].stderr
    assert [made.newest().attempts("hold", index) for index in (0, 1)] == [[1], [1]]


RESTS = """
    axes: {{x: {{values: [1, 2, 3]}}, best: {{from: rank.top, columns: {{y: int}}}}}}
    stages:
      sim: {{over: [x], command: 'test ${{{{ x }}}} != 3 -o -e "$DIEL_RUN_DIR/../../mended" && echo "{{\\"e\\": ${{{{ x * 10 }}}}}}" > "$DIEL_RESULT"', outputs: {{e: {{value: int}}}}}}
      most: {{inputs: {{e: {{from: sim.e, min_success: 0.5}}}}, command: 'echo "{{\\"e\\": ${{{{ max(inputs.e) }}}}}}" > "$DIEL_RESULT"', outputs: {{e: {{value: int}}}}{publishes}}}
      rank: {{command: 'echo "{{\\"top\\": [{{\\"y\\": ${{{{ most.e }}}}}}]}}" > "$DIEL_RESULT"', outputs: {{top: {{value: list}}}}}}
      confirm: {{over: [best], command: [echo, "${{{{ y }}}}"]}}
      reads: {{after: [most], command: [echo, "${{{{ hp.rate }}}}"]}}
      every: {{inputs: {{e: sim.e}}, command: [echo, "${{{{ inputs.e }}}}"]}}
    hyperparameters: {{rate: {{type: int, default: 5}}}}
"""


@pytest.mark.parametrize("publishes", ["", ", publishes: {rate: e}"])
def test_axes_and_published_values_rest_on_what_is_tried_again(tmp_path: Path, publishes: str) -> None:
    project = Project(tmp_path).workflow(RESTS.format(publishes=publishes))
    run = project.run(code=1)
    assert run.counts("confirm") == {"done": 1}
    (project.folder / "mended").touch()
    project.diel("resume")
    assert run.counts("sim") == {"done": 3}
    confirmed = [record["attempt"] for record in run.records("done") if record["stage"] == "confirm"]
    assert run.stdout("confirm", 0, max(confirmed)) == "30\n"
    read = [record["attempt"] for record in run.records("done") if record["stage"] == "reads"]
    assert run.stdout("reads", 0, max(read)) == ("30\n" if publishes else "5\n")


DECIDES = """
    axes:
      rep: {range: 2}
      round: {loop: {max: 2, until: "sum.e > 100"}}
    stages:
      step:
        over: [round, rep]
        inputs: {before: {from: sum.e, at: {round: previous}, initially: 1}}
        command: 'test ${{ rep }} != 1 -o ${{ round }} != 0 -o -e "$DIEL_RUN_DIR/../../mended" && echo "{\\"e\\": ${{ inputs.before + rep }}}" > "$DIEL_RESULT"'
        outputs: {e: {value: int}}
      sum: {over: [round], inputs: {e: {from: step.e, min_success: 0.5}}, command: 'echo "{\\"e\\": ${{ sum(inputs.e) }}}" > "$DIEL_RESULT"', outputs: {e: {value: int}}}
      every: {inputs: {e: step.e}, command: [echo, "${{ inputs.e }}"]}
"""


def test_a_round_that_went_on_without_a_task_fails_once_it_would_be_another(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(DECIDES)
    run = project.run(code=1)
    (project.folder / "mended").touch()
    for _ in range(2):
        project.diel("resume", code=1)
        assert run.counts("sum") == {"done": 1, "failed": 1}
        assert "the points of round rest on the former" in project.diel("explain", run.id, "sum/0")
    step = project.diel("status", run.id, code=None).split("next: ")[1]
    assert "`diel run FILE" in step
    assert "resume" not in step
    assert "next: start anew with `diel run flow.yaml`: no resume" in project.diel("explain", run.id)


LEFT_OUT = """
    axes: {i: {range: 2}}
    stages:
      a: {over: [i], command: 'test ${{ i }} = 0 -o -e "$DIEL_RUN_DIR/../../mended" && echo "{\\"v\\": 1}" > "$DIEL_RESULT"', outputs: {v: {value: int}}}
      sum: {inputs: {v: {from: a.v, min_success: 0.5}}, command: 'echo "{\\"n\\": ${{ sum(inputs.v) }}}" > "$DIEL_RESULT"', outputs: {n: {value: int}}}
      strict: {inputs: {v: a.v}, command: "true"}
      few: {when: sum.n < 2, command: [echo, few]}
      after_few: {after: [few], command: [echo, next]}
      later: {over: [i], after: [after_few], command: [echo, last]}
      many: {over: [i], when: sum.n + i >= 2, command: 'echo "{\\"m\\": ${{ i }}}" > "$DIEL_RESULT"', outputs: {m: {value: int}}}
      behind: {over: [i], after: [many], command: 'echo "{\\"m\\": ${{ i }}}" > "$DIEL_RESULT"', outputs: {m: {value: int}}}
      all: {inputs: {m: many.m, b: behind.m}, command: [echo, "${{ inputs.m }}", "${{ inputs.b }}"]}
"""


def test_what_runs_after_a_stage_that_is_left_out_after_all_is_as_in_a_run_of_its_own(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(LEFT_OUT)
    run = project.run(code=1)
    assert (run.counts("after_few"), run.counts("later")) == ({"done": 1}, {"done": 2})
    assert run.stdout("all") == "1 1\n"
    (project.folder / "mended").touch()
    project.diel("resume")
    anew = project.run("--no-cache")
    for stage in anew.history().stages:
        assert run.counts(stage) == anew.counts(stage), stage
    assert run.counts("later") == {"skipped": 2}
    newest = max(record["attempt"] for record in run.records("done") if record["stage"] == "all")
    assert run.stdout("all", attempt=newest) == anew.stdout("all") == "0 1 0 1\n"


MENDED = """
    axes: {s: {values: [1, 2, 3]}}
    stages:
      count: {over: [s], files: {d: "${{ s }}.txt"}, command: 'read v < ${{ files.d }}; echo "{\\"v\\": $v}" > "$DIEL_RESULT"', outputs: {v: {value: int}}}
      total: {inputs: {v: {from: count.v, min_success: 0.5}}, command: [echo, "${{ sum(inputs.v) }}"]}
      gate: {files: {g: gate.txt}, command: [grep, ok, "${{ files.g }}"]}
"""


def test_an_update_tries_a_tolerated_failure_again_whose_file_was_mended(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(MENDED)
    for name, text in {"1.txt": "1", "2.txt": "oops", "3.txt": "3", "gate.txt": "no"}.items():
        (tmp_path / name).write_text(text + "\n", "utf-8")
    run = project.run(code=1)
    assert run.counts("count") == {"done": 2, "failed": 1}
    (tmp_path / "2.txt").write_text("2\n", "utf-8")
    (tmp_path / "gate.txt").write_text("ok\n", "utf-8")
    project.diel("resume", "--update")
    assert run.counts("count") == {"done": 3}
    totals = [record["attempt"] for record in run.records("done") if record["stage"] == "total"]
    assert run.stdout("total", 0, max(totals)) == "6\n"
    assert "tolerated" not in project.diel("status")


@pytest.mark.parametrize("header", ["", "r,other"])
def test_a_run_goes_on_at_the_points_of_a_file_that_is_gone_or_cannot_give_them(
    tmp_path: Path, header: str
) -> None:
    made = Project(tmp_path).workflow(
        """
        axes: {r: {file: ax.csv}}
        stages:
          a: {over: [r], command: 'test ${{ s }} = 2 -o -e "$DIEL_RUN_DIR/go"; echo ${{ r + s }}'}
        """
    )
    (tmp_path / "ax.csv").write_text("r,s\n1,2\n3,4\n")
    run = made.run(code=1)
    (tmp_path / "ax.csv").unlink()
    if header:
        (tmp_path / "ax.csv").write_text(f"{header}\n1,2\n3,4\n")
    (run.root / "go").touch()
    assert "goes on at the points that it began with: the points of 'r' come from" in made.diel("resume")
    assert run.stdout("a", 1, 2) == "7\n"
