"""What happens after each class of failure, seen in real runs on this machine."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from diel.backends.blocks.dispatcher import InFlight
from diel.base.states import FailureClass
from diel.controller.intake import Intake
from diel.workflow.models import Resources
from tests.controller.bench import Bench
from tests.throwaway import Project, Record, Run


def hog(good: int = 0) -> str:
    """A command that holds 150 MiB until it is killed, but in one of its attempts."""
    text = f"import os, time; held = bytearray(150 * 2**20); time.sleep(600 * (os.environ['DIEL_ATTEMPT'] != '{good}'))"
    return f'[python, -c, "{text}"]'


CLASSES = f"""
    stages:
      command:
        command: {hog(2)}
        resources: {{memory: 60MiB}}
        on: {{oom: {{memory: x4}}}}
      stays:
        command: {hog()}
        resources: {{memory: 60MiB}}
        on: {{oom: {{memory: x1.1, retries: 1}}}}
      once: {{command: {hog()}, resources: {{memory: 60MiB}}, on: {{oom: {{retries: 0}}}}}}
      function: {{module: "eats:function", resources: {{memory: 100MiB}}, on: {{oom: {{memory: x3}}}}}}
      error: {{module: "eats:error", retries: {{limit: 1, backoff: 0s}}}}
      numpy: {{module: "eats:of_numpy", on: {{oom: {{retries: 2}}}}}}
      killed: {{command: "kill -9 $$", on: {{oom: {{retries: 3}}, node: {{retries: 1, backoff: 0s}}}}}}
      apart:
        command: |
          case $DIEL_ATTEMPT in
          1|3) exit 1;;
          2|4) sleep 60;;
          esac
        timeout: 500ms
        retries: {{limit: 2, backoff: 0s}}
        on: {{timeout: {{retries: 2, backoff: 0s}}}}
      together:
        command: |
          case $DIEL_ATTEMPT in
          1|3) exit 1;;
          *) sleep 60;;
          esac
        timeout: 500ms
        retries: {{limit: 2, backoff: 0s}}
      launch: {{command: [no-such-program], retries: 3, on: {{launch: {{retries: 1, backoff: 0s}}}}}}
      waits: {{command: "exit 1", on: {{app: {{retries: 1, backoff: 700ms}}}}}}
      lost: {{module: "eats:lost", retries: 7, on: {{node: {{retries: 1}}}}}}
      temporary: {{command: "exit 75"}}
      interrupted: {{module: "eats:interrupted"}}
"""
EATS = """
    import os
    import time

    @diel.module(kind="analysis")
    def function(context: diel.Context) -> dict:
        held = bytearray(150 * 2**20)
        if context.attempt == 1:
            time.sleep(600)  # it is killed
        return {"held": len(held)}

    @diel.module(kind="analysis")
    def error() -> dict:
        raise MemoryError("no more")

    @diel.module(kind="analysis")
    def of_numpy() -> dict:
        import numpy
        return {"n": numpy.ones((10**9, 10**6))[0, 0]}

    @diel.module(kind="analysis")
    def lost() -> dict:
        os.kill(os.getpid(), 9)
        return {}

    @diel.module(kind="analysis")
    def interrupted() -> dict:
        raise diel.Interrupted("so far")
"""


@contextmanager
def alone() -> Iterator[None]:
    """Keeps apart who has the system kill for want of memory and who is killed otherwise.

    The system counts such kills for the whole machine, and each SIGKILL meanwhile is put down to memory.
    """
    with open(Path(tempfile.gettempdir()) / f"diel-test-{os.getuid()}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    project = Project(tmp_path_factory.mktemp("classes")).workflow(CLASSES).module("eats", EATS)
    with alone():
        return project.run(code=1)


def fails(run: Run, stage: str) -> list[Record]:
    return sorted(run.records("fail", stage), key=lambda record: int(record["attempt"]))


def asked(run: Run, stage: str) -> list[int | None]:
    """The memory that each attempt asked for beyond the stage's, in MiB."""
    records = sorted(run.records("queued", stage), key=lambda record: float(record["time"]))
    found = [record.get("resources", {}).get("memory") for record in records]
    return [None if memory is None else memory // 2**20 for memory in found]


def test_a_command_beyond_its_memory_is_ended_and_gets_more(run: Run) -> None:
    assert run.counts("command") == {"done": 1}
    assert run.attempts("command") == [1, 2]
    assert asked(run, "command") == [None, 240]
    (record,) = fails(run, "command")
    assert record["class"] == "oom"
    assert record["seconds"] < 60
    assert re.fullmatch(r"took [\d.]+ MiB of memory: more than its 60.0 MiB", record["message"])
    assert record["message"].endswith("MiB of memory: more than its 60.0 MiB")


def test_a_task_that_still_has_too_little_fails_when_its_retries_are_used_up(run: Run) -> None:
    assert run.failure("stays")["class"] == "oom"
    assert asked(run, "stays") == [None, 66]
    assert "more than its 66.0 MiB" in run.failure("stays")["message"]
    assert run.attempts("once") == [1]


def test_a_function_beyond_its_memory_ends_with_its_worker_and_gets_more(run: Run) -> None:
    assert run.counts("function") == {"done": 1}
    assert asked(run, "function") == [None, 300]
    (record,) = fails(run, "function")
    assert record["class"] == "oom"
    assert "its worker's own included: more than its 100.0 MiB" in record["message"]


def test_an_allocation_that_fails_is_out_of_memory(run: Run) -> None:
    assert [record["class"] for record in fails(run, "error")] == ["oom", "oom"]
    assert run.failure("error")["message"] == "MemoryError: no more"
    assert [record["class"] for record in fails(run, "numpy")] == ["oom"] * 3
    assert "Unable to allocate" in run.failure("numpy")["message"]


def test_a_program_that_always_kills_itself_ends_when_the_retries_of_its_class_do(run: Run) -> None:
    failure = run.failure("killed")
    assert (failure["class"], failure["message"]) == ("node", "ended from outside (killed by SIGKILL)")
    assert run.attempts("killed") == [1, 2]


def test_a_class_with_a_policy_counts_apart(run: Run) -> None:
    assert [record["class"] for record in fails(run, "apart")] == ["app", "timeout", "app", "timeout"]
    assert run.counts("apart") == {"done": 1}
    assert run.attempts("apart") == [1, 2, 3, 4, 5]


def test_what_the_stages_retries_are_for_counts_together(run: Run) -> None:
    assert [record["class"] for record in fails(run, "together")] == ["app", "timeout", "app"]
    assert run.failure("together")["attempt"] == 3


def test_a_policy_says_how_often_and_when(run: Run) -> None:
    assert [record["class"] for record in fails(run, "launch")] == ["launch", "launch"]
    began = [float(record["time"]) for record in run.records("start", "waits")]
    assert max(began) - min(began) > 0.7
    assert run.failure("lost")["class"] == "node"
    assert run.attempts("lost") == [1, 2]
    assert "worker was lost" in fails(run, "lost")[0]["message"]


def test_only_a_stage_that_keeps_checkpoints_is_continued(run: Run) -> None:
    for stage in ("temporary", "interrupted"):
        failure = run.failure(stage)
        assert failure["class"] == "app"
        assert "`checkpoint: true`" in failure["message"]
        assert run.attempts(stage) == [1]


def test_nothing_is_left_running(run: Run) -> None:
    assert not run.processes()


def test_after_resume_an_attempt_asks_for_what_the_last_one_had(tmp_path: Path) -> None:
    text = f"""
        stages:
          hog: {{command: {hog(6)}, resources: {{memory: 60MiB}}, on: {{oom: {{memory: x1.5, retries: 1}}}}}}
    """
    project = Project(tmp_path).workflow(text)
    run = project.run(code=1)
    assert asked(run, "hog") == [None, 90]
    project.diel("resume", run.id, code=1)
    assert asked(run, "hog") == [None, 90, 90, 135]
    project.diel("resume", run.id)
    assert run.counts("hog") == {"done": 1}
    assert asked(run, "hog") == [None, 90, 90, 135, 135, 202]


# --- what only a scheduler's blocks tell ----------------------------------------------------------

LOSSES = """
    stages:
      s:
        command: [true]
        resources: {memory: 1GiB, walltime: 10m}
        on: {node: {exclude: true}}
      kept: {command: [true], checkpoint: true, resources: {walltime: 10m}}
"""


class Handed:
    """What a dispatcher has out, and nothing else of it."""

    def __init__(self) -> None:
        self.in_flight: dict[tuple[str, int], InFlight] = {}


class Losses:
    """A run whose tasks are lost one attempt after the other."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder, LOSSES)
        self.handed = Handed()
        self.intake = Intake(self.bench.stages, self.bench.ledger, self.handed, self.fits)  # type: ignore[arg-type]

    def fits(self, _: str, wanted: Resources) -> bool:
        return (wanted.memory or 0) <= 3 * 2**30 and (wanted.walltime or 0) <= 1200

    def lose(self, stage: str, kind: FailureClass, node: str | None = None, times: int = 1) -> None:
        run = self.bench.stages.runs[stage]
        for _ in range(times):
            attempt = run.history.attempts.get(0, 0) + 1
            self.bench.ledger.append(
                {"event": "queued", "stage": stage, "bundle": 1, "tasks": [0], "attempts": [attempt]}
            )
            self.handed.in_flight[(stage, 0)] = InFlight(1, attempt)
            self.intake.lose(run, 0, kind, f"its block ended: {kind}", node)

    def state(self, stage: str) -> str:
        return self.bench.stages.runs[stage].history.state(0).label

    def asked(self, stage: str) -> Resources:
        return self.bench.stages.runs[stage].resources_of(0)


@pytest.fixture
def losses(tmp_path: Path) -> Losses:
    return Losses(tmp_path)


def test_a_preempted_task_runs_again_practically_for_ever(losses: Losses) -> None:
    losses.lose("s", FailureClass.PREEMPTED, times=100)
    assert losses.state("s") == "waiting"
    losses.lose("s", FailureClass.PREEMPTED)
    assert losses.state("s") == "failed"


def test_classes_of_losses_count_apart(losses: Losses) -> None:
    losses.lose("s", FailureClass.NODE, times=5)
    losses.lose("s", FailureClass.PREEMPTED, times=5)
    assert losses.state("s") == "waiting"
    losses.lose("s", FailureClass.NODE)
    assert losses.state("s") == "failed"


def test_a_node_is_excluded_where_the_stage_says_so_and_for_nothing_else(losses: Losses) -> None:
    losses.lose("s", FailureClass.NODE, "n3")
    losses.lose("s", FailureClass.PREEMPTED, "n4")
    losses.lose("kept", FailureClass.NODE, "n5")
    assert losses.intake.excluded == {"n3"}


def test_walltime_that_cannot_grow_ends_a_task_unless_it_keeps_checkpoints(losses: Losses) -> None:
    for stage in ("s", "kept"):
        losses.lose(stage, FailureClass.WALLTIME)
        assert losses.asked(stage).walltime == 1200
        losses.lose(stage, FailureClass.WALLTIME)
    assert losses.state("s") == "failed"
    record = losses.bench.ledger.history.failures[("s", 0)]
    assert record["message"].endswith("no pool gives a task more than 20m00s of walltime")
    assert losses.state("kept") == "waiting"
    losses.lose("kept", FailureClass.WALLTIME)
    assert losses.state("kept") == "failed"


def test_what_is_not_in_flight_is_not_lost(losses: Losses) -> None:
    losses.intake.lose(losses.bench.stages.runs["s"], 0, FailureClass.NODE, "gone")
    assert losses.state("s") == "waiting"
    assert not losses.bench.stages.runs["s"].history.attempts


# --- the system's own killing ---------------------------------------------------------------------

CGROUP = Path("/sys/fs/cgroup/memory")


@pytest.mark.skipif(
    not os.access(CGROUP / "memory.limit_in_bytes", os.W_OK),
    reason="making a memory cgroup takes root and cgroups of version 1; counters stand in for it in tests/attempt/test_reaper.py",
)
def test_a_program_that_the_system_kills_for_want_of_memory_is_out_of_memory(tmp_path: Path) -> None:
    group = CGROUP / f"diel-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    try:
        (group / "memory.limit_in_bytes").write_text(str(40 * 2**20))
        text = f"""
            stages:
              hog:
                command: |
                  echo $$ > {group}/cgroup.procs
                  exec python -c "held = bytearray(150 * 2**20)"
        """
        with alone():
            run = Project(tmp_path).workflow(text).run(code=1)
    finally:
        for _ in range(100):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.05)
    failure = run.failure("hog")
    assert (failure["class"], failure["exit_code"]) == ("oom", 137)
    assert failure["message"].startswith("out of memory: the system killed for lack of memory")
