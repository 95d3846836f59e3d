"""What travels between the controller and a worker."""

from __future__ import annotations

import pickle

from diel.worker.attempt.bundle import Bundle, Failure, Work
from diel.workflow.models import Resources
from tests.worker.bench import request

WORK = Work("s", None, {}, None, (), 1, memory=2**20, walltime=60.0)


def asked(memory: str, walltime: str) -> Resources:
    return Resources.model_validate({"memory": memory, "walltime": walltime})


def test_a_bundle_arrives_as_it_was_sent() -> None:
    tasks = (request(3, "echo", "3", env={"A": "1"}), request(4, "echo", "4"))
    bundle = Bundle(7, "/runs/w-1", 2, WORK, tasks, 1.5)
    assert pickle.loads(pickle.dumps(bundle)) == bundle


def test_work_is_bounded_by_what_its_attempt_asked_for() -> None:
    assert WORK.within(asked("1MiB", "60s")) is WORK
    more = WORK.within(asked("2MiB", "2m"))
    assert (more.memory, more.walltime, more.stage) == (2**21, 120.0, "s")


def test_a_failure_has_its_class_its_message_and_how_its_program_ended() -> None:
    failure = Failure("app", "exit code 3", 3)
    assert (failure.kind, str(failure), failure.exit_code) == ("app", "exit code 3", 3)
