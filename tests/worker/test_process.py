"""A worker runs bundles one task after the other, and commits each result to its own segment."""

from __future__ import annotations

import contextlib
import json
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from diel.base.errors import WorkerLost
from diel.store.journal.segment import read_segment, segments
from diel.store.project.requests import ask_cancel, put_up
from diel.workflow.models import Output, Service, Surrogate
from diel.workflow.models.model import plain
from tests.record import as_record
from tests.throwaway import wait_for
from tests.worker.bench import Bench, request, worker_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as made:
        yield made


def pid(bench: Bench) -> int:
    (record,) = bench.records("worker")
    return int(record["pid"])


def test_a_report_tells_where_each_result_stands(bench: Bench) -> None:
    report = bench.run([request(0, "echo", "hi"), request(1, "sh", "-c", "exit 3"), request(2, "true")])
    assert [(r["event"], r["index"]) for _, r in report.records] == [("done", 0), ("fail", 1), ("done", 2)]
    path = bench.paths.journal / report.segment
    for offset, record in report.records:
        assert next(read_segment(path, offset))[2] == json.loads(json.dumps(record))
    assert report.end == path.stat().st_size
    assert (bench.paths.tasks / "s" / "0" / "stdout").read_text() == "hi\n"
    assert [r["index"] for r in bench.records("start")] == [0, 1, 2]


def test_a_bundle_is_handed_back_when_its_time_is_over(bench: Bench) -> None:
    requests = [request(n, "sleep", "0.1") for n in range(5)]
    report = bench.start(requests, seconds=0.05).result(timeout=30)
    assert [record["index"] for _, record in report.records] == [0]
    assert [record["index"] for record in bench.records("start")] == [0]
    assert [record["tasks"] for record in bench.records("release")] == [[1, 2, 3, 4]], (
        "none is queued any more"
    )


def test_what_stands_behind_a_long_task_is_released_while_it_runs(bench: Bench) -> None:
    future = bench.start([request(0, "sleep", "600"), request(1, "true"), request(2, "true")])
    wait_for(lambda: bench.records("release"))
    assert bench.records("release")[0]["tasks"] == [1, 2]
    assert not future.done()
    ask_cancel(bench.paths, ["s/0"])
    report = future.result(timeout=60)
    assert [(r["index"], r["class"]) for _, r in report.records] == [(0, "cancelled")]


def test_nothing_begins_once_another_controller_has_taken_over(bench: Bench) -> None:
    future = bench.start([request(0, "sleep", "0.3"), request(1, "true")])
    wait_for(lambda: bench.records("start"))
    bench.take_over(2)
    report = future.result(timeout=30)
    assert [record["index"] for _, record in report.records] == [0]
    assert [record["index"] for record in bench.records("start")] == [0]


def test_a_request_made_before_the_worker_began_counts(bench: Bench) -> None:
    ask_cancel(bench.paths, ["s"])
    report = bench.run([request(0, "sleep", "600")])
    assert report.records[0][1]["class"] == "cancelled"


def test_a_request_for_other_tasks_does_no_harm(bench: Bench) -> None:
    ask_cancel(bench.paths, ["s/1", "t"])
    report = bench.run([request(0, "sleep", "0.5")])
    assert report.records[0][1]["event"] == "done"


@pytest.mark.parametrize("hearing", ["if True", "with contextlib.suppress(diel.Pruned)"])
def test_a_function_that_hears_that_it_is_pruned_has_no_result_and_its_worker_goes_on(
    bench: Bench, hearing: str
) -> None:
    """Also where it catches that and returns what it has so far: another run must not take that for whole."""
    report = f"    {hearing}:\n        context.report(loss=1)\n    return {{}}"
    module = bench.module(f"def f(context: diel.Context) -> dict:\n    import contextlib\n{report}")
    ask_cancel(bench.paths, ["s/0"], kind="stop")
    for index in range(2):
        bench.run([request(index)], module=module)
    (fail,), (done,) = bench.records("fail"), bench.records("done")
    assert (fail["index"], fail["class"], done["index"]) == (0, "cancelled", 1)
    assert len(bench.records("worker")) == 1


def test_a_terminated_worker_takes_its_command_with_it(bench: Bench) -> None:
    future = bench.start([request(0, "sh", "-c", "echo $$ > pid; sleep 600")])
    place = bench.paths.tasks / "s" / "0" / "pid"
    wait_for(lambda: place.exists() and place.read_text().strip())
    worker = psutil.Process(pid(bench))

    def ended() -> bool:
        """Python may miss a signal that comes just as it begins to wait: like a scheduler, this asks again."""
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.terminate()
        return future.done()

    wait_for(ended)
    with pytest.raises(WorkerLost, match="ended with"):
        future.result(timeout=60)
    wait_for(lambda: not psutil.pid_exists(int(place.read_text())))
    assert not bench.records("done")
    assert not bench.records("fail")


def test_an_attempt_begins_in_a_clean_directory(bench: Bench) -> None:
    left = bench.paths.tasks / "s" / "0" / "left" / "behind"
    left.mkdir(parents=True)
    bench.run([request(0, "ls", "-A")])
    assert not left.exists()
    assert [p.name for p in (bench.paths.tasks / "s" / "0").iterdir()] == []


def test_in_a_block_the_first_worker_that_makes_an_attempts_directory_has_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was given up for lost may begin late what another one was handed as well."""
    monkeypatch.setenv("DIEL_BLOCK", "1-0")
    with worker_bench(tmp_path) as bench:
        theirs = bench.paths.tasks / "s" / "0" / "theirs"
        theirs.mkdir(parents=True)
        module = bench.module("def made() -> dict:\n    return {'x': 1}")
        for work in ({}, {"module": module}):
            (told,) = bench.run([request(0, "true")], **work).records
            assert told[1] == {"event": "release", "stage": "s", "bundle": 1, "tasks": [0], "taken": 1}
            assert theirs.exists()
        assert bench.run([request(0, attempt=2)], module=module).records[0][1]["attempt"] == 2
        assert [(record["index"], record["attempt"]) for record in bench.records("start")] == [(0, 2)]
        (told,) = bench.run([request(0, attempt=2)], module=module).records
        assert told[1]["taken"] == 2, "a task that left nothing has its number all the same"


def test_a_worker_that_was_given_up_commits_nothing_and_begins_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIEL_BLOCK", "1-0")
    monkeypatch.setenv("DIEL_BLOCK_END", str(time.time() + 600))
    with worker_bench(tmp_path) as bench:
        go, begun = tmp_path / "go", tmp_path / "begun"
        text = f"touch '{begun}'; until [ -e '{go}' ]; do sleep 0.02; done"
        at = bench.start([request(0, "sh", "-c", text), request(1, "true")])
        wait_for(begun.exists)
        put_up(bench.paths, "1-0", ["worker-0001-another"])
        (name,) = [name for name in segments(bench.paths.journal) if name.startswith("worker")]
        put_up(bench.paths, "1-0", [name])
        go.touch()
        with pytest.raises(WorkerLost):
            at.result(timeout=30)
        assert bench.records("done") == []
    with worker_bench(tmp_path / "two") as bench:
        put_up(bench.paths, "1-0")
        assert not bench.run([request(0, "true")]).records
        assert bench.records("start") == []


def test_a_directory_that_cannot_be_made_is_the_nodes_failure(bench: Bench) -> None:
    (bench.paths.tasks / "s").write_text("a file in the way")
    report = bench.run([request(0, "true")])
    assert report.records[0][1]["class"] == "node"


def test_the_environment_is_each_tasks_own(bench: Bench) -> None:
    module = bench.module(
        "def made() -> dict:\n    import os\n"
        "    seen = [os.environ.get('A'), os.environ.get('LEFT'), os.environ['DIEL_TASK_ID'], os.getcwd()]\n"
        "    os.environ['LEFT'] = 'x'\n    return {'seen': seen}"
    )
    requests = [request(0, env={"A": "1"}), request(1), request(2, env={"A": "2"})]
    records = [record for _, record in bench.run(requests, module=module).records]
    tasks = bench.paths.tasks / "s"
    assert [as_record(record)["values"]["seen"] for record in records] == [
        ["1", None, "s/0", str(tasks / "0")],
        [None, None, "s/1", str(tasks / "1")],
        ["2", None, "s/2", str(tasks / "2")],
    ]


def test_tasks_that_leave_nothing_leave_no_directory(bench: Bench) -> None:
    module = bench.module("def made() -> dict:\n    return {'x': 1}")
    report = bench.run([request(n) for n in range(20)], module=module)
    assert all(record["values"] == {"x": 1} for _, record in report.records)
    wait_for(lambda: list((bench.paths.tasks / "s").iterdir()) == [])


def test_a_timeout_in_a_bundle_stops_that_task_alone(bench: Bench) -> None:
    requests = [request(0, "true"), request(1, "sleep", "600"), request(2, "true")]
    began = time.monotonic()
    records = [record for _, record in bench.run(requests, timeout=0.5).records]
    ended = [(r["event"], r.get("class")) for r in records]
    assert ended == [("done", None), ("fail", "timeout"), ("done", None)]
    assert time.monotonic() - began < 60


def test_a_bundle_whose_first_task_fails_hands_the_rest_back(bench: Bench) -> None:
    report = bench.run([request(0, "false"), request(1, "true"), request(2, "true")])
    assert [record["event"] for _, record in report.records] == ["fail"]


def test_outputs_and_values_are_in_the_record(bench: Bench) -> None:
    command = ("sh", "-c", 'echo "{\\"x\\": 1}" > "$DIEL_RESULT"; echo text > sub/a.txt')
    report = bench.run([request(0, *command, outputs={"a": "sub/a.txt"})], values={"x": "int"})
    record = report.records[0][1]
    assert record["values"] == {"x": 1}
    artifact = record["artifacts"]["a"]
    assert (bench.paths.root / artifact["path"]).read_text() == "text\n"
    assert artifact["size"] == 5


def test_no_worker_loads_models_or_the_fold_whatever_its_stage_declares(bench: Bench) -> None:
    """To load it takes longer than most of what a worker does: jobs carry plain data, and no models."""
    output = Output.model_validate({"finite": True})
    service = Service.model_validate({"reload": "/reload"})
    surrogate = Surrogate.model_validate({"service": "answers", "tolerance": 0.5})
    assert (plain(service).reload, plain(service).ready.tcp) == ("/reload", True)
    assert plain(output).promises == ("finite",)
    module = bench.module(
        "def made() -> dict:\n"
        "    import sys, diel.worker.service, diel.worker.attempt.surrogate\n"
        "    heavy = {'pydantic', 'parsl', 'yaml', 'diel.store.journal.history'}\n"
        "    return {'x': 1.5, 'loaded': sorted(heavy & {*sys.modules})}"
    )
    work = {"module": module, "promises": {"x": plain(output)}, "service": None}
    (told,) = bench.run([request(0)], **work).records
    assert told[1]["values"] == {"x": 1.5, "loaded": []}
    packed = pickle.dumps((plain(output), plain(service), plain(surrogate)))
    text = f"import pickle, sys; pickle.loads({packed!r}); assert 'pydantic' not in sys.modules"
    subprocess.run([sys.executable, "-c", text], check=True)
