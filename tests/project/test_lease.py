"""The lease: one controller at a time drives a run."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from diel.base.errors import JournalError, UsageError
from diel.base.paths import RunPaths, registry_dir
from diel.store.journal.segment import SegmentWriter, read_segment
from diel.store.project.lease import (
    SILENCE,
    TAIL,
    TAKING,
    Lease,
    beat,
    birth_of,
    driver,
    is_alive,
    last_word,
    lives,
    read_lease,
    still_mine,
    take,
    time_at,
)
from tests.record import as_record
from tests.throwaway import Project, wait_for


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    found = RunPaths(tmp_path / "w-1")
    found.journal.mkdir(parents=True)
    return found


def me() -> Lease:
    process = psutil.Process()
    return Lease(1, socket.gethostname(), process.pid, process.create_time(), birth_of(process.pid))


def ended() -> Lease:
    """A controller on this host that is gone."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    birth = birth_of(process.pid)
    process.communicate(b"\n")
    return me()._replace(pid=process.pid, birth=birth)


def leave(paths: RunPaths, lease: Lease) -> None:
    """What a controller that took the run leaves behind."""
    line = {"event": "controller", **lease._asdict(), "time": 1.0}
    paths.controller_segment(lease.epoch).write_text(json.dumps(line) + "\n")
    paths.lease.write_text(json.dumps(lease._asdict()))


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_the_first_controller_says_who_it_is(paths: RunPaths) -> None:
    lease, segment = take(paths)
    assert lease == me()
    assert read_lease(paths) is not None
    assert read_lease(paths)[0] == lease  # type: ignore[index]
    (line,) = read_segment(paths.journal / "controller-0001.jsonl")
    record = line[2]
    assert record is not None
    assert {"event": "controller", **lease._asdict()}.items() <= record.items()
    assert segment.name == "controller-0001.jsonl"


def test_a_run_that_lives_is_not_taken_over(paths: RunPaths) -> None:
    take(paths)
    with pytest.raises(UsageError, match=f"w-1 is driven by process {os.getpid()} on .*diel cancel w-1"):
        take(paths)
    assert len(os.listdir(paths.journal)) == 1


def test_a_run_whose_controller_is_gone_is_taken_over_in_the_next_epoch(paths: RunPaths) -> None:
    leave(paths, ended())
    lease, segment = take(paths)
    assert (lease.epoch, segment.name) == (2, "controller-0002.jsonl")
    assert read_lease(paths)[0] == lease  # type: ignore[index]


def test_who_takes_a_run_over_says_for_how_long_nobody_drove_it(paths: RunPaths) -> None:
    paths.lease.write_text(json.dumps(ended()._asdict()))
    os.utime(paths.lease, (time.time() - 3600,) * 2)
    _, segment = take(paths)
    first = next(record for _, _, record in read_segment(segment.path))
    assert first is not None
    assert first["event"] == "controller"
    assert first["idle"] == pytest.approx(3600, abs=60)


def test_a_process_that_got_the_same_number_later_is_not_the_controller(paths: RunPaths) -> None:
    reused = me()._replace(birth=birth_of(1))
    assert not is_alive(reused, 0.0)
    leave(paths, reused)
    assert take(paths)[0].epoch == 2


def test_a_controller_on_this_host_lives_as_long_as_its_process_however_silent() -> None:
    assert is_alive(me(), 10 * SILENCE)
    assert not is_alive(ended(), 0.0)


def test_a_zombie_does_not_live() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    child = psutil.Process(process.pid)
    lease = me()._replace(pid=process.pid, birth=birth_of(process.pid))
    wait_for(lambda: child.status() == psutil.STATUS_ZOMBIE)
    assert not is_alive(lease, 0.0)
    process.wait()


def test_a_step_of_the_clock_kills_no_controller() -> None:
    stepped = me()._replace(started=me().started - 300)
    assert is_alive(stepped, 300.0)
    old = stepped._replace(birth="")
    assert is_alive(old, 1.0), "a lease of old has nothing but its heartbeat then"
    assert not is_alive(old, 10 * SILENCE)
    assert is_alive(me()._replace(birth=""), 10 * SILENCE)
    assert not is_alive(ended()._replace(birth=""), 0.0)


@pytest.mark.parametrize("where", [{"host": "elsewhere"}, {}], ids=["host", "container"])
def test_a_controller_that_cannot_be_looked_at_lives_by_its_heartbeat(
    paths: RunPaths, where: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diel.store.project.lease.HEARTBEAT", 0.02)
    far = me()._replace(birth="another-boot/1/1", **where)  # type: ignore[arg-type]
    leave(paths, far)
    age(paths.lease, SILENCE - 10)
    with pytest.raises(UsageError, match="w-1 is driven by process"):
        take(paths)
    age(paths.lease, SILENCE + 10)
    assert take(paths)[0].epoch == 2


def test_one_that_seems_silent_because_the_clock_made_a_step_is_heard_before_the_run_is_taken(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(paths, me()._replace(host="elsewhere", birth=""))
    age(paths.lease, 300)
    monkeypatch.setattr("diel.store.project.lease.time.sleep", lambda _seconds: beat(paths))
    with pytest.raises(UsageError, match="on elsewhere"):
        take(paths)


def test_a_heartbeat_makes_the_lease_young(paths: RunPaths) -> None:
    take(paths)
    age(paths.lease, 100)
    assert read_lease(paths)[1] == pytest.approx(100, abs=10)  # type: ignore[index]
    beat(paths)
    assert read_lease(paths)[1] < 10  # type: ignore[index]


def test_a_heartbeat_from_a_clock_ahead_is_no_negative_age(paths: RunPaths) -> None:
    take(paths)
    age(paths.lease, -1000)
    assert read_lease(paths)[1] == 0.0  # type: ignore[index]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"epoch": 1}', '{"other": 1}', "\0"])
def test_a_lease_that_cannot_be_read_is_none(paths: RunPaths, text: str) -> None:
    assert read_lease(paths) is None
    paths.lease.write_text(text)
    assert read_lease(paths) is None
    assert take(paths)[0].epoch == 1


# --- two at once --------------------------------------------------------------------------------


def test_one_that_took_over_and_has_not_written_the_lease_yet_is_seen(paths: RunPaths) -> None:
    """Between making the segment and writing the lease, the old lease still names a dead process."""
    leave(paths, ended())
    writer = SegmentWriter(paths.controller_segment(2))
    with pytest.raises(UsageError, match="another controller just took over"):
        take(paths)
    writer.append(as_record({"event": "controller", **me()._replace(epoch=2)._asdict(), "time": 1.0}))
    with pytest.raises(UsageError, match=f"driven by process {os.getpid()}"):
        take(paths)
    assert not paths.controller_segment(3).exists()


def test_one_that_finds_the_disk_full_keeps_nobody_waiting(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    leave(paths, ended())
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(JournalError, match="No space left on device"):
            take(paths)
    assert take(paths)[0].epoch == 2


def test_one_that_died_before_it_wrote_the_lease_stops_nobody(paths: RunPaths) -> None:
    leave(paths, ended())
    SegmentWriter(paths.controller_segment(2))
    age(paths.controller_segment(2), TAKING + 1)
    assert take(paths)[0].epoch == 3
    gone = ended()._replace(epoch=4)
    SegmentWriter(paths.controller_segment(4)).append(
        as_record({"event": "controller", **gone._asdict(), "time": 1.0})
    )
    assert take(paths)[0].epoch == 5


RACE = """
import json, os, sys
from pathlib import Path
from diel.base.errors import JournalError, UsageError
from diel.store.project.lease import take
from diel.base.paths import RunPaths

rounds, takers = int(sys.argv[2]), int(sys.argv[3])
for number in range(rounds):
    paths = RunPaths(Path(sys.argv[1]) / f"w-{number}")
    paths.journal.mkdir(parents=True)
    gate, start = os.pipe()
    results, told = os.pipe()
    stay, leave = os.pipe()
    children = []
    for _ in range(takers):
        child = os.fork()
        if child == 0:
            os.close(start)
            os.close(leave)
            os.read(gate, 1)  # returns for all at once, when the parent closes its end
            try:
                take(paths)
                os.write(told, b"1")
            except UsageError:
                os.write(told, b"0")
            os.read(stay, 1)  # who has it lives until all have tried
            os._exit(0)
        children.append(child)
    os.close(start)
    seen = b""
    while len(seen) < takers:
        seen += os.read(results, takers)
    os.close(leave)
    for child in children:
        os.waitpid(child, 0)
    for end in (gate, results, told, stay):
        os.close(end)
    print(seen.count(b"1"), len(list(paths.journal.iterdir())))
"""


def test_of_many_that_take_a_run_at_once_exactly_one_gets_it(tmp_path: Path, root: Path) -> None:
    rounds = 40
    result = subprocess.run(
        [sys.executable, "-c", RACE, str(tmp_path), str(rounds), "6"],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["1 1"] * rounds


def test_a_run_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="w-1: cannot write there: No such file"):
        take(RunPaths(tmp_path / "w-1"))


def test_who_takes_a_run_over_removes_what_killed_writers_left(paths: RunPaths) -> None:
    """What was written to just now may be at work; a task's directory is its attempt's own."""
    services = paths.services / "model"
    task = paths.task_dir("train", 0, 1)
    folders = [paths.root, paths.submissions, paths.requests, paths.fences, paths.axes, paths.streams]
    folders += [paths.streams / "channels" / "0001", services, registry_dir(paths.root.parent)]
    for folder in (*folders, task):
        folder.mkdir(parents=True, exist_ok=True)
        for name, age in ((".old.json.0815.part", 60), (".young.json.0816.part", 0), ("mine.part", 60)):
            (folder / name).touch()
            os.utime(folder / name, (time.time() - age,) * 2)
    take(paths)[1].close()
    for folder in folders:
        assert {path.name for path in folder.glob("*.part")} == {".young.json.0816.part", "mine.part"}
    assert (task / ".old.json.0815.part").exists()


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from diel.base.files import replacing

    for place in ("snapshot.json", "streams/channels/0001/items-000001.index", "services/model/0.json", "fences/1-0"):
        path = Path(os.environ["DIEL_RUN_DIR"], place)
        path.parent.mkdir(parents=True, exist_ok=True)
        if os.fork() == 0:
            with replacing(path) as file:
                file.write(b"half")
                os.kill(os.getpid(), signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL
    assert len(list(Path(os.environ["DIEL_RUN_DIR"]).rglob("*.part"))) == 4
"""


def test_the_end_of_a_run_removes_what_writers_left_that_were_killed_a_moment_ago(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "killed.py").write_text(textwrap.dedent(KILLED))
    words = json.dumps([sys.executable, str(tmp_path / "killed.py")])
    run = project.workflow(f"stages: {{one: {{command: {words}}}}}").run()
    assert not list(run.root.rglob("*.part"))


# --- clocks, and who is late --------------------------------------------------------------------


def test_the_age_of_a_heartbeat_is_measured_by_the_file_systems_clock(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This host's clock is an hour ahead: a controller elsewhere does not look dead for it."""
    leave(paths, me()._replace(host="elsewhere"))
    monkeypatch.setattr("diel.store.project.lease.time.time", lambda: real() + 3600)
    held = read_lease(paths)
    assert held is not None
    assert held[1] < 10
    assert not list(paths.root.glob(".*"))


real = time.time


def test_where_nothing_can_be_made_the_hosts_clock_has_to_do(tmp_path: Path) -> None:
    assert time_at(tmp_path / "not there") == pytest.approx(time.time(), abs=10)


def test_a_controller_that_let_go_drives_the_run_no_more_though_its_process_lives(paths: RunPaths) -> None:
    for number, word in enumerate(("end", "handover")):
        lease, segment = take(paths)
        assert driver(paths) is not None
        segment.append(as_record({"event": "queued", "stage": "a" * TAIL, "time": 1.0}))
        assert last_word(paths, lease.epoch) == ""
        segment.append({"event": word, "time": 1.0})
        assert last_word(paths, lease.epoch) == word
        assert driver(paths) is None
        assert lease.epoch == number + 1


def test_one_that_has_just_taken_the_run_is_told_by_its_segment(paths: RunPaths) -> None:
    leave(paths, ended())
    writer = SegmentWriter(paths.controller_segment(2))
    writer.append(as_record({"event": "controller", **me()._replace(epoch=2)._asdict(), "time": 1.0}))
    assert read_lease(paths)[0] == me()._replace(epoch=2)  # type: ignore[index]


def test_a_controller_whose_host_slept_finds_that_another_has_the_run(paths: RunPaths) -> None:
    lease, _ = take(paths)
    assert still_mine(paths, lease)
    far = lease._replace(epoch=2, host="elsewhere")
    SegmentWriter(paths.controller_segment(2))
    assert not still_mine(paths, lease)
    paths.controller_segment(2).unlink()
    paths.lease.write_text(json.dumps(far._asdict()))
    assert not still_mine(paths, lease)
    assert still_mine(paths, far)


def test_a_lease_that_cannot_be_read_in_a_moment_takes_the_run_from_nobody(paths: RunPaths) -> None:
    lease, _ = take(paths)
    paths.lease.unlink()
    assert still_mine(paths, lease)


# --- births of processes ---------------------------------------------------------------------------


def test_a_process_is_known_again_until_it_ends() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    born = birth_of(process.pid)
    assert lives(process.pid, born)
    process.kill()
    wait_for(lambda: not lives(process.pid, born))  # a zombie, which nobody has asked for its exit code
    assert lives(process.pid, born) is False
    process.communicate()
    assert lives(process.pid, born) is False
    assert birth_of(process.pid) == ""


def test_a_later_process_with_the_same_number_is_another() -> None:
    place, _, ticks = birth_of(os.getpid()).rpartition("/")
    assert lives(os.getpid(), f"{place}/{int(ticks) - 1}") is False


def test_a_process_keeps_its_birth_whatever_it_calls_itself() -> None:
    born = birth_of(os.getpid())
    was = Path("/proc/self/comm").read_text()
    try:
        Path("/proc/self/comm").write_text(") Z 1 (")
        assert birth_of(os.getpid()) == born
        assert lives(os.getpid(), born)
    finally:
        Path("/proc/self/comm").write_text(was)


@pytest.mark.parametrize("other", ["", "another-boot/4026531836/17", "nonsense", "1/2"])
def test_of_a_process_from_elsewhere_nothing_is_said(other: str) -> None:
    assert lives(os.getpid(), other) is None


def test_of_a_process_that_the_system_hides_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    born = birth_of(os.getpid())

    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr("diel.store.project.lease._look", lambda pid: None)
    monkeypatch.setattr("os.kill", refuse)
    assert lives(1, born) is None


def test_in_another_container_of_the_same_host_nothing_is_said() -> None:
    born = birth_of(os.getpid())
    code = f"from diel.store.project.lease import lives; print(lives({os.getpid()}, {born!r}))"
    words = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "unshare:" in done.stderr:
        pytest.skip(f"no PID namespace can be made here: {done.stderr.strip()}")
    assert done.stdout == "None\n"
