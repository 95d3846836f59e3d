"""Tasks that save and continue: told before their walltime or block ends, never charged for it.

A block's end is played by its variables: they are all that a worker knows of one.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.throwaway import Project, Record, Run, wait_for

FAR = 3600.0
COUNTS = """n=$(cat "$DIEL_CHECKPOINT_DIR/n" 2>/dev/null || echo 0)"""


class InBlock(Project):
    """A project whose runs are in a block that ends so many seconds from now, while there is one."""

    def __init__(self, folder: Path, left: float) -> None:
        super().__init__(folder)
        self.left: float | None = left
        self.machine("wide", 6)

    def environment(self) -> dict[str, str]:
        if self.left is None:
            return super().environment()
        end = {"DIEL_BLOCK": "1-0", "DIEL_BLOCK_END": str(time.time() + self.left), "DIEL_NODE_NAME": "n7"}
        return {**super().environment(), **end}


def fails(run: Run, stage: str) -> list[Record]:
    return sorted(run.records("fail", stage), key=lambda record: int(record["attempt"]))


def classes(run: Run, stage: str) -> list[str]:
    return [str(record["class"]) for record in fails(run, stage)]


# --- on this machine ------------------------------------------------------------------------------

HERE = f"""
    stages:
      command:
        checkpoint: true
        retries: 0
        command: |
          {COUNTS}
          echo $((n + 1)) > "$DIEL_CHECKPOINT_DIR/n"
          [ $n = 3 ] || exit 75
          echo "{{\\"n\\": $n, \\"attempt\\": $DIEL_ATTEMPT}}" > "$DIEL_RESULT"
        outputs: {{n: {{value: int}}, attempt: {{value: int}}}}
      function: {{module: "saves:counts", checkpoint: true}}
      ranks: {{module: "saves:counts", checkpoint: true, resources: {{ranks: 2}}}}
      charged:
        checkpoint: true
        retries: {{limit: 1, backoff: 0s}}
        command: |
          case $DIEL_ATTEMPT in
          1|3|4) exit 75;;
          2) exit 1;;
          5) exit 2;;
          esac
      nowhere: {{command: "exit 75", checkpoint: true, retries: 5}}
"""
SAVES = """
    import time

    @diel.module(kind="analysis")
    def counts(context: diel.Context) -> dict:
        file = context.checkpoint_dir / f"n{context.rank}"
        n = int(file.read_text()) if file.exists() else 0
        file.write_text(str(n + 1))
        if n < 3:
            raise diel.Interrupted(f"{n} so far")
        return {"n": n, "attempt": context.attempt, "kept": context.checkpoint}

    @diel.module(kind="analysis")
    def asks(context: diel.Context) -> dict:
        file = context.checkpoint_dir / "left"
        if file.exists():
            return {"left": float(file.read_text())}
        while not context.interrupted:
            time.sleep(0.05)
        file.write_text(str(context.time_left))
        raise diel.Interrupted("asked and stopped")

    @diel.module(kind="analysis")
    def deaf(context: diel.Context) -> dict:
        if context.attempt == 1:
            time.sleep(600)
        return {"attempt": context.attempt}
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Run:
    project = Project(tmp_path_factory.mktemp("here")).workflow(HERE).module("saves", SAVES)
    return project.run(code=1)


@pytest.mark.parametrize("stage", ["command", "function", "ranks"])
def test_a_task_that_stops_at_a_checkpoint_continues_uncharged(here: Run, stage: str) -> None:
    assert (here.value(stage, "n"), here.value(stage, "attempt")) == (3, 4)
    assert classes(here, stage) == ["interrupted"] * 3
    assert [record["exit_code"] for record in fails(here, stage)] == [75] * 3
    assert (here.root / "tasks" / stage / "0.checkpoint").is_dir()


def test_a_continued_task_is_charged_for_its_failures_alone(here: Run) -> None:
    assert classes(here, "charged") == ["interrupted", "app", "interrupted", "interrupted", "app"]
    assert here.failure("charged")["exit_code"] == 2


def test_a_task_that_is_interrupted_at_once_again_and_again_fails(here: Run) -> None:
    failure = here.failure("nowhere")
    assert failure["class"] == "app"
    assert "interrupted 20 times in a row within 1 s of its start" in failure["message"]
    assert len(here.attempts("nowhere")) == 20


def test_an_interruption_is_told_as_none_of_a_failure(here: Run, tmp_path: Path) -> None:
    said = Project(here.root.parent.parent).diel("explain", here.id, "function/0")
    assert "attempt 1: interrupted after" in said
    assert "0 so far" in said


# --- rehearsed by a timeout -----------------------------------------------------------------------

REHEARSED = f"""
    stages:
      trap:
        checkpoint: true
        timeout: 10s
        grace: 9500ms
        retries: 0
        command: |
          {COUNTS}
          trap 'echo $((n + 1)) > "$DIEL_CHECKPOINT_DIR/n"; exit 75' TERM
          [ $n = 2 ] && exit 0
          while :; do sleep 0.05; done
      function: {{module: "saves:asks", checkpoint: true, timeout: 10s, grace: 9500ms, retries: 0}}
      ranks: {{module: "saves:asks", checkpoint: true, timeout: 10s, grace: 9s, retries: 0, resources: {{ranks: 2}}}}
      deaf: {{command: [sh, -c, "trap '' TERM; sleep 600"], checkpoint: true, grace: 500ms, timeout: 1s}}
      dies: {{command: [sleep, "600"], checkpoint: true, grace: 9500ms, timeout: 10s}}
      deaf_function: {{module: "saves:deaf", checkpoint: true, grace: 500ms, timeout: 1s}}
      unasked: {{command: [sh, -c, "trap 'exit 75' TERM; while :; do sleep 0.05; done"], checkpoint: true, timeout: 1s}}
"""


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    project = Project(tmp_path_factory.mktemp("rehearsed")).workflow(REHEARSED).module("saves", SAVES)
    return project.run(code=1)


@pytest.mark.parametrize(("stage", "times"), [("trap", 2), ("function", 1), ("ranks", 1)])
def test_a_timeout_with_grace_asks_as_a_blocks_end_does(rehearsed: Run, stage: str, times: int) -> None:
    assert rehearsed.counts(stage) == {"done": 1}
    assert classes(rehearsed, stage) == ["interrupted"] * times
    assert all(float(record["seconds"]) < 8 for record in fails(rehearsed, stage))


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("deaf", "ran longer than its timeout of 1 s; it was warned before, and continued"),
        ("deaf_function", "ran longer than its timeout of 1 s; it was warned before, and continued"),
        ("dies", "killed by SIGTERM, not 75, when it was warned of its end"),
        ("unasked", "ran longer than its timeout of 1 s"),
    ],
)
def test_a_timeout_ends_what_does_not_save(rehearsed: Run, stage: str, message: str) -> None:
    failure = rehearsed.failure(stage)
    assert (failure["class"], failure["message"]) == ("timeout", message)
    assert rehearsed.attempts(stage) == [1]


# --- in a block -----------------------------------------------------------------------------------

WALLTIME = f"""
    stages:
      grows: {{command: [sleep, "3"], resources: {{walltime: 2s}}}}
      short: {{command: [sleep, "600"], resources: {{walltime: 1s}}, on: {{walltime: {{retries: 0}}}}}}
      timeout: {{command: [sleep, "600"], resources: {{walltime: 600s}}, timeout: 1s}}
      says: {{command: 'echo "{{\\"deadline\\": $DIEL_DEADLINE}}" > "$DIEL_RESULT"', outputs: {{deadline: {{value: float}}}}, resources: {{walltime: 100s}}}}
      trap:
        checkpoint: true
        grace: 3s
        retries: 0
        resources: {{walltime: 5s}}
        command: |
          {COUNTS}
          trap 'echo $((n + 1)) > "$DIEL_CHECKPOINT_DIR/n"; exit 75' TERM
          [ $n = 0 ] || exit 0
          sleep 600 & wait
      shell:
        checkpoint: true
        grace: 3s
        resources: {{walltime: 5s}}
        files: {{script: saves.sh}}
        command: 'sh "${{{{ files.script }}}}"; exit $?'
      function: {{module: "saves:asks", checkpoint: true, grace: 2s, resources: {{walltime: 4s}}}}
      on_ranks: {{module: "saves:asks", checkpoint: true, grace: 2s, resources: {{walltime: 4s, ranks: 2}}}}
      command_on_ranks:
        checkpoint: true
        grace: 2s
        resources: {{walltime: 5s, ranks: 2}}
        files: {{script: saves.sh}}
        command: [sh, "${{{{ files.script }}}}"]
      deaf: {{command: [sh, -c, "trap '' TERM; [ $DIEL_ATTEMPT = 2 ] || sleep 600"], checkpoint: true, grace: 1s, resources: {{walltime: 2s}}, retries: 0}}
      dies: {{command: [sh, -c, "[ $DIEL_ATTEMPT = 2 ] || exec sleep 600"], checkpoint: true, grace: 1s, resources: {{walltime: 2s}}, retries: 0}}
      deaf_function: {{module: "saves:deaf", checkpoint: true, grace: 1s, resources: {{walltime: 2s}}, retries: 0}}
"""
SCRIPT = """
file="$DIEL_CHECKPOINT_DIR/saved.$$"
trap 'touch "$file"; sleep 0.5; exit 75' TERM
ls "$DIEL_CHECKPOINT_DIR" | grep -q saved && exit 0
i=0
while [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done
"""


@pytest.fixture(scope="module")
def in_block(tmp_path_factory: pytest.TempPathFactory) -> Run:
    project = InBlock(tmp_path_factory.mktemp("block"), FAR)
    project.workflow(WALLTIME).module("saves", SAVES)
    (project.folder / "saves.sh").write_text(SCRIPT)
    return project.run("--site", "wide", code=1)


def test_a_task_beyond_its_walltime_is_ended_and_gets_more(in_block: Run) -> None:
    assert in_block.counts("grows") == {"done": 1}
    (record,) = fails(in_block, "grows")
    assert (record["class"], record["message"]) == ("walltime", "ran longer than its walltime of 2.0s")
    again = in_block.records("queued", "grows")[-1]
    assert (again["attempts"], again["resources"]) == ([2], {"walltime": 4.0})
    assert in_block.failure("short")["class"] == "walltime"
    assert in_block.attempts("short") == [1]
    assert in_block.failure("timeout")["class"] == "timeout"


def test_the_deadline_is_the_earliest_end(in_block: Run) -> None:
    began = float(in_block.records("start", "says")[0]["time"])
    assert in_block.value("says", "deadline") == pytest.approx(began + 100, abs=0.01)


@pytest.mark.parametrize("stage", ["trap", "shell", "function", "on_ranks", "command_on_ranks"])
def test_a_task_that_is_told_before_its_end_saves_and_continues(in_block: Run, stage: str) -> None:
    assert in_block.counts(stage) == {"done": 1}
    assert classes(in_block, stage) == ["interrupted"]
    assert in_block.attempts(stage) == [1, 2]
    (record,) = fails(in_block, stage)
    assert record["seconds"] > 1.5
    assert "resources" not in in_block.records("queued", stage)[-1]


def test_every_rank_is_told(in_block: Run) -> None:
    saved = (in_block.root / "tasks" / "command_on_ranks" / "0.checkpoint").iterdir()
    assert len([path for path in saved if path.name.startswith("saved.")]) == 2


def test_a_function_knows_how_much_time_is_left(in_block: Run) -> None:
    assert 0 < in_block.value("function", "left") <= 2


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("deaf", "ran longer than its walltime of 2.0s; it was warned before, and continued"),
        ("deaf_function", "ran longer than its walltime of 2.0s; it was warned before, and continued"),
        ("dies", "killed by SIGTERM, not 75, when it was warned of its end"),
    ],
)
def test_a_task_that_does_not_save_is_of_class_walltime_and_uncharged(
    in_block: Run, stage: str, message: str
) -> None:
    assert in_block.counts(stage) == {"done": 1}
    (record,) = fails(in_block, stage)
    assert (record["class"], record["message"]) == ("walltime", message)


def test_a_worker_tells_its_block_and_node(in_block: Run) -> None:
    workers = in_block.records("worker")
    assert workers
    assert {(worker["block"], worker["node"]) for worker in workers} == {("1-0", "n7")}


ENDS = """
    stages:
      plain: {command: [sh, -c, "[ $DIEL_ATTEMPT != 1 ] || sleep 600"]}
      trap:
        checkpoint: true
        grace: 2s
        command: |
          trap 'touch "$DIEL_CHECKPOINT_DIR/saved"; exit 75' TERM
          while [ ! -e "$DIEL_CHECKPOINT_DIR/saved" ]; do sleep 0.1; done
      function: {module: "saves:asks", checkpoint: true, grace: 2s}
      first: {command: [sleep, "1"]}
      long: {command: [echo, late], after: [first], resources: {walltime: 300s}}
"""


def test_what_the_end_of_a_block_interrupts_continues_in_another(tmp_path: Path) -> None:
    project = InBlock(tmp_path, 15)
    project.workflow(ENDS).module("saves", SAVES)
    process = project.start("run", "flow.yaml", "--site", "wide")
    wait_for(lambda: (tmp_path / "runs" / "flow-1").exists())
    run = project.newest()
    wait_for(lambda: {record["stage"] for record in run.records("fail")} >= {"plain", "trap", "function"})
    wait_for(lambda: run.records("release", "long"))
    process.send_signal(signal.SIGINT)
    project.end(process, 130)
    assert classes(run, "plain") == ["walltime"]
    assert fails(run, "plain")[0]["message"] == "its block ended before it did"
    for stage in ("trap", "function"):
        assert classes(run, stage) == ["interrupted"], fails(run, stage)
    assert run.counts("first") == {"done": 1}
    assert not run.records("start", "long")

    project.left = None
    project.diel("resume", run.id)
    for stage in ("plain", "trap", "function", "long"):
        assert run.counts(stage) == {"done": 1}, stage
        assert len(run.attempts(stage)) == (1 if stage == "long" else 2)


def test_a_cancelled_task_is_not_continued(tmp_path: Path) -> None:
    text = """
        stages:
          trap: {command: [sh, -c, "trap 'exit 75' TERM; while :; do sleep 0.1; done"], checkpoint: true}
    """
    project = Project(tmp_path).workflow(text)
    process = project.start("run", "flow.yaml")
    wait_for(lambda: (tmp_path / "runs" / "flow-1").exists() and project.newest().records("start"))
    project.diel("cancel", "flow-1", code=None)
    project.end(process, 3)
    run = project.newest()
    assert run.attempts("trap") == [1]
    assert run.counts("trap") == {"cancelled": 1}
    assert not run.processes()


ADDING = """
    axes: {i: {range: 4}}
    stages:
      sim: {over: [i], command: 'test ${{ i }} != 3 || test -e $DIEL_RUN_DIR/go && echo "{\\"x\\": ${{ i }}}" > $DIEL_RESULT', outputs: {x: {value: int}}}
      fit:
        module: adding:fit
        inputs: {xs: {from: sim.x, min_success: 0.7}}
        checkpoint: true
      need: {inputs: {x: sim.x}, command: "true"}
"""
FIT = """
    import diel

    def fit(context: diel.Context, xs: list[int]) -> dict:
        saved = context.checkpoint_dir / "saved"
        step, total = map(int, saved.read_text().split()) if saved.exists() else (0, 0)
        for step in range(step, 10):
            total += sum(xs) * FACTOR
            saved.write_text(f"{step + 1} {total}")
        return {"total": total}
"""


def test_a_task_with_other_inputs_does_not_go_on_from_what_those_before_saved(tmp_path: Path) -> None:
    made = Project(tmp_path).workflow(ADDING).module("adding", FIT.replace("FACTOR", "1"))
    run = made.run(code=1)
    assert run.value("fit", "total") == 10 * (0 + 1 + 2)
    (run.root / "go").touch()
    made.diel("resume")
    assert latest(run, "fit", "total") == 10 * (0 + 1 + 2 + 3)


def test_another_version_begins_anew_and_the_first_one_goes_on_where_it_was(tmp_path: Path) -> None:
    made = Project(tmp_path).workflow(ADDING).module("adding", FIT.replace("FACTOR", "1"))
    run = made.run(code=1)
    (run.root / "go").touch()
    made.module("adding", FIT.replace("FACTOR", "100"))
    made.diel("resume", "--update")
    assert latest(run, "fit", "total") == 10 * 100 * (0 + 1 + 2 + 3)
    assert len([*(run.root / "tasks" / "fit").glob("0.checkpoint*/saved")]) == 2


def latest(run: Run, stage: str, name: str) -> object:
    """A value of the last result of a stage with one task."""
    return run.records("done", stage)[-1]["values"][name]
