"""What a run has besides stages: nothing of a feature runs for a run that does not use it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from diel.backends.blocks.block import Block
from diel.base.paths import RunPaths
from diel.base.states import RunState
from diel.cli.commands.status import _fit, _run_view
from diel.observe.status.columns import width_of
from diel.observe.status.run import Status, ended_status, read_status, services_of
from diel.observe.status.sections import SECTIONS, block_lines, service_lines
from diel.site.shape import Shape
from diel.store.journal.history import History
from diel.store.journal.snapshot import read_run
from diel.streams.services.endpoint import Endpoint, endpoint_file, write_endpoint
from tests.allocation import Node, block
from tests.cli.call import call
from tests.entered import entered
from tests.written import Written

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def run(workspace: Path) -> Written:
    return Written(workspace / "runs", alive=True)


def test_the_end_of_a_run_enters_no_feature_that_it_does_not_use(run: Written) -> None:
    status = ended_status(run.paths, History(), RunState.SUCCEEDED)
    files = entered(lambda: [section.summary(status) for section in SECTIONS if section.used(status)])
    assert files <= {"observe/status/run.py", "observe/status/sections.py"}


def busy(run: Written) -> Status:
    """A run with blocks in each state."""
    block(run, "1-0", nodes="n[1-2]")
    block(run, "1-1", "pending", reason="Resources")
    block(run, "1-2", "oom", reason="OUT_OF_MEMORY", stderr_tail="first\nslurmstepd: oom_kill event\n")
    block(run, "1-3", "cancelled", ending=True, stderr_tail="slurmstepd: CANCELLED\n")
    Node(run.paths, "1-0", "n1").done("a", 0).start("a", 1).start("a", 2)
    return read_status(run.paths)


def test_live_blocks_are_rows_with_their_age_tasks_and_the_schedulers_reason(
    run: Written, capsys: Capture
) -> None:
    busy(run)
    rows = {line.split()[0]: line for line in call(capsys, "status").out.splitlines() if line.strip()}
    assert re.fullmatch(r"1-0 +100 +cpu-1c +n\[1-2\] +9m0\ds, 5\dm\d\ds left +2 +running", rows["1-0"])
    assert re.fullmatch(r"1-1 +101 +cpu-1c +waits (9m59|10m00)s +pending: Resources", rows["1-1"])


def test_a_block_that_ended_badly_is_told_with_the_last_line_of_its_stderr(
    run: Written, capsys: Capture
) -> None:
    busy(run)
    said = call(capsys, "status").out
    assert re.search(
        r"block 1-2 \(job 102\) oom 5m0\ds ago: OUT_OF_MEMORY\n    slurmstepd: oom_kill event", said
    )
    assert "first" not in said


def test_a_block_that_diel_gave_back_is_only_counted(run: Written, capsys: Capture) -> None:
    busy(run)
    said = call(capsys, "status").out
    assert "2 blocks ended\n" in said
    assert "1-3" not in said
    assert "CANCELLED" not in said


def test_a_block_that_somebody_else_cancelled_ended_badly(run: Written, capsys: Capture) -> None:
    block(run, "1-0", "cancelled", reason="CANCELLED by 1000")
    assert "block 1-0 (job 100) cancelled" in call(capsys, "status").out


def test_only_the_last_bad_ends_are_shown_and_all_when_asked(run: Written, capsys: Capture) -> None:
    for number in range(5):
        block(run, f"1-{number}", "node_failed", reason=f"reason {number}")
    short, long = call(capsys, "status").out, call(capsys, "status", "--all").out
    assert [n for n in range(5) if f"reason {n}" in short] == [2, 3, 4]
    assert "2 earlier ones ended badly" in short
    assert [n for n in range(5) if f"reason {n}" in long] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "reason", ["Can Never Run: Insufficient amount of resource: ncpus", "PartitionNodeLimit"]
)
def test_a_block_that_can_never_run_says_so_in_red_and_comes_first(run: Written, reason: str) -> None:
    for number in range(9):
        block(run, f"1-{number}")
    block(run, "1-9", "pending", reason=reason, hopeless=True)
    lines = block_lines(read_status(run.paths))
    (line,) = [line for line in lines if "1-9" in line]
    assert "\033[31m" in line
    assert f"  can never run: {reason.removeprefix('Can Never Run: ')}" in click.unstyle(line)
    assert "blocks: 9 running, 1 can never run" in block_lines(read_status(run.paths), brief=True)
    assert "… 2 more blocks: 2 running" in lines


def test_what_to_do_about_a_block_that_can_never_run_is_the_next_step(run: Written, capsys: Capture) -> None:
    block(run, "1-0", "pending", reason="Priority")
    assert "next:" not in call(capsys, "status").out
    block(run, "1-1", "pending", reason="PartitionTimeLimit", hopeless=True)
    last = call(capsys, "status").out.splitlines()[-1]
    assert last.startswith("next: block 1-1 can never run: fix pool 'cpu'")
    assert "ask for less in `resources`, then `diel cancel w-1` and run it again" in last


def test_a_block_that_waits_its_turn_is_not_red(run: Written) -> None:
    block(run, "1-0", "pending", reason="Priority")
    assert not any("\033[31m" in line for line in block_lines(read_status(run.paths)))


def test_a_silent_scheduler_is_told_with_since_when(run: Written, capsys: Capture) -> None:
    run.write("scheduler", message="squeue: timed out").write("scheduler", message="")
    assert "does not answer" not in call(capsys, "status").out
    since = run.write("scheduler", message="squeue: timed out").clock
    run.write("scheduler", message="squeue: Unable to contact\nslurm controller")
    said = call(capsys, "status").out
    assert re.search(
        r"does not answer since .*\d\d:\d\d:\d\d: squeue: Unable to contact slurm controller", said
    )
    assert json.loads(call(capsys, "status", "--json").out)["scheduler"] == {
        "silent": "squeue: Unable to contact\nslurm controller",
        "since": since,
    }


def test_trouble_is_told_until_the_run_has_succeeded(run: Written, capsys: Capture) -> None:
    run.write("trouble", message="a block was refused: Invalid account")
    assert "trouble: a block was refused: Invalid account" in call(capsys, "status").out
    run.end("succeeded")
    assert "trouble" not in call(capsys, "status").out
    assert json.loads(call(capsys, "status", "--json").out)["trouble"].endswith("Invalid account")


def test_json_has_the_records_of_all_blocks_and_what_runs_in_them(run: Written, capsys: Capture) -> None:
    busy(run)
    document = json.loads(call(capsys, "status", "--json").out)
    assert [(b["block"], b["state"], b["running"]) for b in document["blocks"]] == [
        ("1-0", "running", 2),
        ("1-1", "pending", 0),
        ("1-2", "oom", 0),
        ("1-3", "cancelled", 0),
    ]
    keys = Block("1-0", Shape("cpu", 0, 1), 1, 60.0, 0.0, 1).record().keys()
    assert all({*b, "event"} == {*keys, "running"} for b in document["blocks"])


def test_what_goes_on_in_a_block_of_the_last_controller_is_counted(run: Written) -> None:
    block(run, "1-0")
    Node(run.paths, "1-0", "n1").start("a", 0)
    run.write("controller", epoch=2)
    (told,) = read_status(run.paths).blocks
    assert told["running"] == 1


def test_the_snapshot_tells_the_same(run: Written) -> None:
    before = busy(run)
    run.snapshot()
    assert read_status(run.paths, read_run(run.paths)).blocks == before.blocks


def test_without_its_controller_blocks_are_as_it_last_knew_them(workspace: Path, capsys: Capture) -> None:
    run = Written(workspace / "runs")
    block(run, "1-0")
    said = call(capsys, "status").out
    assert "interrupted" in said
    assert "blocks as their controller last knew them:" in said


def test_a_run_on_one_machine_says_nothing_of_blocks(run: Written, capsys: Capture) -> None:
    run.done(0)
    assert "block" not in call(capsys, "status").out


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_longer_than_the_terminal(run: Written, width: int) -> None:
    busy(run)
    reason, shape = "Can Never Run: " + "x" * 200, "cpu-12c-4g-64000MiB-10m00s"
    block(run, "1-4", "pending", reason=reason, hopeless=True, shape=shape)
    block(run, "1-5", nodes="n[1-4,7-9,12-200,300-401]")
    run.write("scheduler", message="y" * 300).write("trouble", message="z" * 300)
    lines = block_lines(read_status(run.paths), width)
    assert max(map(width_of, lines)) <= width
    assert any("can never" in line for line in lines)


@pytest.mark.parametrize("height", [8, 12, 16, 24])
def test_a_low_terminal_gets_the_blocks_in_one_line(run: Written, height: int) -> None:
    for number in range(8):
        block(run, f"1-{number}", "pending" if number > 4 else "running")

    def view(status: Status, rows: int | None = None, *, brief: bool = False) -> str:
        return _run_view(status, run.paths, False, rows, brief=brief)

    text = click.unstyle(_fit(view, read_status(run.paths), height))
    assert text.count("\n") + 1 <= height - 2
    if height == 12:
        assert "blocks: 5 running, 3 pending" in text
    if height == 16:
        assert [name for name in ("a ", "b ", "late ") if f"\n{name}" in text] == ["a ", "b ", "late "]
    if height == 24:
        assert "1-7" in text


def test_a_watch_off_a_terminal_tells_when_a_block_moves_on(
    run: Written, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    block(run, "1-0", "pending", reason="Priority")

    def finish() -> None:
        block(run, "1-0", "cancelled", ending=True)
        run.end("succeeded")

    steps = iter([lambda: block(run, "1-0"), finish])
    monkeypatch.setattr("diel.cli.commands.status.time", SimpleNamespace(sleep=lambda _: next(steps)()))
    said = call(capsys, "status", "--watch").out
    assert said.index("pending: Priority") < said.index("n0")


def test_nothing_of_a_block_moves_the_cursor(run: Written) -> None:
    block(run, "1-0", "pending", reason="\033[2Jgone")
    block(run, "1-1", "failed", reason="\033[2Jgone", stderr_tail="\033[2Jgone")
    run.write("trouble", message="\033[2J")
    assert not any("\033[2J" in line for line in block_lines(read_status(run.paths)))


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A run with two services; of one all replicas are ready."""
    found = RunPaths(tmp_path / "w-1")
    for index in (10, 9):
        write_endpoint(
            endpoint_file(found, "model", index), Endpoint("ready", f"http://here:{index}", 1, index - 9)
        )
    write_endpoint(
        endpoint_file(found, "db", 0), Endpoint("restarting", "http://here:1", 1, 2, "exit code 3")
    )
    write_endpoint(endpoint_file(found, "db", 1), Endpoint("stopped", "http://here:2", 1))
    return found


def test_each_service_has_a_line_with_where_it_is_and_what_troubles_it(paths: RunPaths) -> None:
    assert service_lines(services_of(paths, driven=True)) == [
        "service db: 1 of 2 replicas restarting, 1 of 2 replicas stopped, restarted 2 times",
        "  db/0: exit code 3",
        "service model: 2 replicas ready, restarted once: http://here:9, http://here:10",
    ]


def test_without_a_controller_no_service_stays_up(paths: RunPaths) -> None:
    db, model = services_of(paths, driven=False)
    assert [replica.state for replica in db.replicas] == ["gone", "stopped"]
    assert [(replica.state, replica.url) for replica in model.replicas] == [("gone", "")] * 2
    assert model.document()["ready"] == 0


def test_a_script_reads_each_replica_in_the_order_of_tasks(paths: RunPaths) -> None:
    endpoint_file(paths, "model", 11).write_text("{")  # half written, or a newer diel's
    (paths.services / "model" / "9.1.inputs.json").write_text("{}")
    document = services_of(paths, driven=True)[1].document()
    assert (document["ready"], document["restarts"]) == (2, 1)
    assert [replica["task"] for replica in document["replicas"]] == ["model/9", "model/10"]
