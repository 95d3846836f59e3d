"""Outputs written on the node's disk: copied to the run while the next task runs, committed when they are there."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import JournalError
from diel.store.journal.segment import SegmentWriter
from diel.worker.attempt import extraction
from diel.worker.attempt.bundle import Bundle, Request, StagedTask, Staging, Work
from diel.worker.attempt.staging import Drain, open_drain
from diel.worker.attempt.watchdog import RunningAttempt
from diel.worker.process import Worker, run_bundle
from diel.worker.staging.item import Local
from diel.workflow.models import Output
from diel.workflow.models.model import plain
from tests.record import as_record
from tests.staging.copies import in_another_process
from tests.throwaway import wait_for
from tests.worker.bench import Bench, request, worker_bench

WORK: dict[str, Any] = {
    "stage": "s", "module": None, "values": {}, "timeout": None, "launcher": (), "threads": 1,
}  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as made:
        yield made


def draining(folder: Path, *outputs: str, size: int | None = None) -> Staging:
    return Staging(Local(str(folder / "disk"), size), (), outputs or ("out",))


def writes(index: int, script: str, **more: Any) -> Request:
    return request(index, "sh", "-ec", script, **{"outputs": {"out": "out.bin"}, **more})


def test_what_a_command_writes_lies_in_the_run_once_it_is_done(bench: Bench, tmp_path: Path) -> None:
    report = bench.run([writes(0, "echo data > out.bin; readlink out.bin")], staging=draining(tmp_path))
    ((_, record),) = report.records
    assert record["event"] == "done"
    out = bench.paths.tasks / "s" / "0" / "out.bin"
    assert not out.is_symlink()
    assert out.read_text() == "data\n"
    assert record["artifacts"]["out"]["size"] == 5
    assert (bench.paths.tasks / "s" / "0" / "stdout").read_text().startswith(f"{tmp_path}/disk/diel-")
    assert not list((tmp_path / "disk").glob("diel-*/drains/*")), "it is gone from the node's disk"


def hold_copy(until: Callable[[], object]) -> None:
    """Makes this process's copies wait for something."""
    copy = Drain.copy

    def held(self: Drain) -> int:
        wait_for(until)
        return copy(self)

    Drain.copy = held  # type: ignore[method-assign]


def in_a_worker(bench: Bench, requests: list[Request], staging: Staging, until: Callable[[], object]) -> int:
    """Runs a bundle in a worker of its own whose copies wait for something; its exit code."""

    def work() -> None:
        hold_copy(until)
        bundle = Bundle(1, str(bench.paths.root), 1, Work(**WORK, staging=staging), tuple(requests), 60)
        Worker(str(bench.paths.root), 1).run(bundle)
        os._exit(0)

    return in_another_process(work)


def test_the_next_task_runs_while_the_outputs_of_one_are_copied(bench: Bench, tmp_path: Path) -> None:
    requests = [writes(index, "echo data > out.bin") for index in range(3)]
    last = bench.paths.tasks / "s" / "2"
    assert in_a_worker(bench, requests, draining(tmp_path), last.exists) == 0
    events = [
        (r["event"], r.get("index")) for r in bench.records() if r["event"] in ("start", "done", "fail")
    ]
    assert events[:3] == [("start", 0), ("start", 1), ("start", 2)]
    assert sorted(events[3:]) == [("done", 0), ("done", 1), ("done", 2)]


def test_a_value_in_what_is_drained_is_found_and_its_pattern_has_an_end(bench: Bench, tmp_path: Path) -> None:
    how = Output.model_validate({"value": "str", "file": "out.bin", "match": "(?:a+)+b|E=7"})
    tasks = [
        writes(index, f"echo {text} > out.bin", outputs={"out": "out.bin", "e": "out.bin"})
        for index, text in enumerate(("E=7", "a" * 60))
    ]

    def work() -> None:
        extraction.PATIENCE = 0.05
        given = Work(**WORK, staging=draining(tmp_path), promises={"e": plain(how)})
        Worker(str(bench.paths.root), 1).run(Bundle(1, str(bench.paths.root), 1, given, tuple(tasks), 60))
        os._exit(0)

    assert in_another_process(work) == 0
    (good,), (bad,) = bench.records("done"), bench.records("fail")
    assert good["values"] == {"e": "E=7"}
    assert (bench.paths.tasks / "s" / "0" / "out.bin").read_text() == "E=7\n"
    assert "the pattern '(?:a+)+b|E=7' takes more than 0.05 s" in bad["message"]


def test_a_worker_that_is_killed_before_the_copy_is_there_has_committed_nothing(
    bench: Bench, tmp_path: Path
) -> None:
    requests = [writes(0, "echo data > out.bin"), writes(1, "kill -9 $PPID")]
    assert in_a_worker(bench, requests, draining(tmp_path), lambda: False) == -signal.SIGKILL
    assert [record["index"] for record in bench.records("start")] == [0, 1]
    assert not bench.records("done")
    assert (bench.paths.tasks / "s" / "0" / "out.bin").is_symlink()


def test_an_output_that_is_missing_fails_its_task_by_name(bench: Bench, tmp_path: Path) -> None:
    report = bench.run([writes(0, "true")], staging=draining(tmp_path))
    ((_, record),) = report.records
    assert (record["event"], record["class"]) == ("fail", "app")
    assert "output 'out': no file 'out.bin'" in record["message"]


def test_a_command_that_fails_is_told_as_ever(bench: Bench, tmp_path: Path) -> None:
    report = bench.run([writes(0, "echo no >&2; exit 3")], staging=draining(tmp_path))
    ((_, record),) = report.records
    assert (record["class"], record["exit_code"], record["stderr_tail"]) == ("app", 3, "no\n")
    assert not list((tmp_path / "disk").glob("diel-*/drains/*"))


def test_what_one_task_was_to_drain_is_not_the_next_ones(bench: Bench, tmp_path: Path) -> None:
    """A task that cannot begin, here because its directory of outputs is a file of another's, drains nothing."""
    blocked = writes(0, "true", outputs={"out": "out.bin", "other": "out.bin/deep"})
    ((_, record),) = bench.run([blocked], staging=draining(tmp_path)).records
    assert (record["event"], record["class"]) == ("fail", "node")
    assert not list((tmp_path / "disk").glob("diel-*/drains/*"))
    module = bench.module("def made() -> dict:\n    return {'x': 1}")
    ((_, record),) = bench.run([request(1)], module=module).records
    assert record["values"] == {"x": 1}


def test_a_task_whose_inputs_could_not_be_staged_on_its_nodes_is_watched_all_the_same(
    bench: Bench, tmp_path: Path
) -> None:
    staged = StagedTask((), {}, {}, ("sleep", "60"), {})
    work = {"staging": Staging(Local(str(tmp_path)), ("false",)), "timeout": 0.5}
    told, failed = (
        record for _, record in bench.run([request(0, "sleep", "60", staged=staged)], **work).records
    )
    assert "could not be staged on the task's nodes" in told["warning"]
    assert failed["class"] == "timeout"


def test_a_program_that_renames_its_output_into_place_is_as_good(bench: Bench, tmp_path: Path) -> None:
    report = bench.run([writes(0, "echo data > new; mv new out.bin")], staging=draining(tmp_path))
    ((_, record),) = report.records
    assert record["artifacts"]["out"]["size"] == 5


def test_a_directory_may_be_drained(bench: Bench, tmp_path: Path) -> None:
    script = "mkdir $DIEL_DRAIN_DIR/tree; echo a > tree/a; chmod 700 tree/a"
    report = bench.run([writes(0, script, outputs={"out": "tree"})], staging=draining(tmp_path))
    ((_, record),) = report.records
    assert record["artifacts"]["out"]["size"] == 2
    assert (bench.paths.tasks / "s" / "0" / "tree" / "a").stat().st_mode & 0o777 == 0o700


def test_a_disk_without_room_is_told_and_the_run_is_written_to(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "disk").write_text("a file in the way")
    report = bench.run([writes(0, "echo data > out.bin; pwd")], staging=draining(tmp_path))
    told, done = (record for _, record in report.records)
    assert (told["event"], done["event"]) == ("staging", "done")
    assert told["warning"].endswith("cannot be used: Not a directory")


def test_a_second_attempt_writes_to_the_run_itself(tmp_path: Path) -> None:
    work = Work("s", None, {}, None, (), 1, staging=draining(tmp_path))
    (tmp_path / "task").mkdir()
    again = request(0, "true", attempt=2, outputs={"out": "out.bin"})
    assert open_drain(RunningAttempt(work, again, str(tmp_path / "task")), {}, 1) is None


def test_a_task_whose_output_is_not_as_promised_keeps_what_it_said(bench: Bench, tmp_path: Path) -> None:
    promises = {"out": Output.model_validate({"path": "out.csv", "rows": 3, "drain": True})}
    made = writes(0, "echo no luck >&2; printf 'a\\n1\\n' > out.csv", outputs={"out": "out.csv"})
    ((_, record),) = bench.run([made], staging=draining(tmp_path), promises=promises).records
    assert record["message"] == "output 'out': out.csv has 1 row; expected 3"
    assert record["stderr_tail"] == "no luck\n"


def test_a_result_that_cannot_be_committed_ends_the_worker(bench: Bench, tmp_path: Path) -> None:
    def commit() -> None:
        append = SegmentWriter.append

        def full(self: SegmentWriter, *records: Mapping[str, Any]) -> int:
            if any(record["event"] == "done" for record in records):
                raise JournalError("no space left on device")
            return append(self, *as_record(records))

        SegmentWriter.append = full  # type: ignore[method-assign]
        work = Work(**WORK, staging=draining(tmp_path))
        bundle = Bundle(1, str(bench.paths.root), 1, work, (writes(0, "touch out.bin"),), 60)
        run_bundle(pickle.dumps(bundle))
        os._exit(0)

    assert in_another_process(commit) == os.EX_IOERR
