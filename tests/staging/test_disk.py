"""A node's own disk: what is used stays, what is not makes way, and nobody else's is taken."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
from pathlib import Path

import pytest

from diel.base import copying
from diel.worker.staging import disk as bringing
from diel.worker.staging import disk as disks
from diel.worker.staging.disk import Disk, StagingError, StagingReport, bring, fetch, local_folder, release
from diel.worker.staging.item import Local, item_of
from tests.staging.copies import KIB, in_another_process, names, source


def test_what_was_not_used_for_longest_makes_way(tmp_path: Path) -> None:
    disk = Disk(str(tmp_path / "disk"), 10 * KIB)
    a, b, c = (source(tmp_path, name) for name in ("a.bin", "b.bin", "c.bin"))
    for item, used in ((a, 2_000), (b, 1_000)):
        bring(disk, [item])
        os.utime(f"{disk.entries}/{item.key}", (used, used))
    release()
    assert bring(disk, [c]).copied == 1
    assert names(disk) == ["a.bin", "c.bin"]


def test_what_a_task_uses_stays_and_the_other_is_told_that_there_is_no_room(tmp_path: Path) -> None:
    disk = Disk(str(tmp_path / "disk"), 10 * KIB)
    a, b, c = (source(tmp_path, name) for name in ("a.bin", "b.bin", "c.bin"))
    bring(disk, [a, b])  # this process's task is not over
    with pytest.raises(
        StagingError, match=r"no room for 4\.0 KiB .* diel may keep 10\.0 KiB, 8\.0 KiB there"
    ):
        bring(disk, [c])
    assert names(disk) == ["a.bin", "b.bin"]
    release()
    assert bring(disk, [c]).copied == 1
    assert len(names(disk)) == 2


def test_an_epoch_before_the_last_makes_way_for_the_next(tmp_path: Path) -> None:
    disk = Disk(str(tmp_path / "disk"), 10 * KIB)
    a, b, c = (source(tmp_path, name) for name in ("a.bin", "b.bin", "c.bin"))
    bring(disk, [a], tag="x/0/0")
    bring(disk, [b], tag="x/0/1")
    assert bring(disk, [c], tag="x/0/2").copied == 1
    assert names(disk) == ["b.bin", "c.bin"]
    with pytest.raises(StagingError, match="no room"):
        bring(disk, [a], tag="y/0/0")


def test_what_a_dead_process_used_holds_nothing_up(tmp_path: Path) -> None:
    disk = Disk(str(tmp_path / "disk"), 10 * KIB)
    a, b, c = (source(tmp_path, name) for name in ("a.bin", "b.bin", "c.bin"))
    assert in_another_process(lambda: (bring(disk, [a, b]), os._exit(0))) == 0
    assert bring(disk, [c]).copied == 1
    assert "c.bin" in names(disk)


def test_what_is_larger_than_the_limit_deletes_nothing(tmp_path: Path) -> None:
    disk = Disk(str(tmp_path / "disk"), 10 * KIB)
    small, large = source(tmp_path, "small"), source(tmp_path, "large", 20 * KIB)
    bring(disk, [small])
    release()
    with pytest.raises(StagingError, match="no room"):
        bring(disk, [large])
    assert names(disk) == ["small"]


def test_copies_of_an_earlier_boot_are_not_trusted(disk: Disk, tmp_path: Path) -> None:
    item = source(tmp_path, "a.bin")
    bring(disk, [item])
    Path(disk.root, "boot").write_text("another")
    again = Disk(str(tmp_path / "disk"))
    assert names(again) == []
    assert bring(again, [item]).copied == 1


def test_a_directory_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    place = tmp_path / "disk" / f"diel-{os.getuid()}"
    place.mkdir(parents=True)
    place.chmod(0o777)
    with pytest.raises(StagingError, match="is not a directory of this user alone"):
        Disk(str(tmp_path / "disk"))
    place.rmdir()
    place.symlink_to(tmp_path)
    with pytest.raises(StagingError, match="is not a directory of this user alone"):
        Disk(str(tmp_path / "disk"))


def test_the_site_beats_the_environment_and_variables_are_the_nodes_own() -> None:
    env = {"DIEL_LOCAL_DIR": "/one", "SLURM_TMPDIR": "/two", "TMPDIR": "/three", "NODE": "n1"}
    assert local_folder("/disk/$NODE/${NODE}", env) == ("/disk/n1/n1", True)
    assert local_folder("", env) == ("/one", True)
    assert local_folder("", {"TMPDIR": "/three"}) == ("/three", False)
    assert local_folder("", {}) == ("/tmp", False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("/disk/$JOB", r"\$JOB is not set"),
        ("disk", "not an absolute path"),
        ("/my disk", "a shell would take"),
    ],
)
def test_a_directory_that_no_node_can_use_is_told(given: str, message: str) -> None:
    with pytest.raises(StagingError, match=message):
        local_folder(given, {})


def test_a_lock_that_its_last_holder_deleted_is_made_anew(tmp_path: Path) -> None:
    place = str(tmp_path / "lock")
    first = disks._lock_now(place)
    assert first is not None
    assert disks._lock_now(place) is None
    os.unlink(place)
    second = disks._lock_now(place)
    assert second is not None
    os.close(first)
    os.close(second)


def test_a_line_that_a_full_disk_cut_short_holds_nothing_up(tmp_path: Path) -> None:
    disk = Disk(str(tmp_path / "disk"), 10 * KIB)
    with open(f"{disk.root}/pins/1-a", "w", encoding="ascii") as another:
        another.write("0123456789abc")
        another.flush()
        fcntl.flock(another, fcntl.LOCK_EX)
        assert bring(disk, [source(tmp_path, "b.bin")]).copied == 1


def test_copies_that_nobody_uses_make_way_for_what_a_task_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(str(tmp_path / "disk"))
    old, used = source(tmp_path, "old.bin"), source(tmp_path, "used.bin")
    bring(disk, [old])
    release()
    bring(disk, [used])
    full = os.statvfs_result((4096, 4096, 1000, 0, 0, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    disk.drain_dir(1)
    assert names(disk) == ["used.bin"]


def test_a_file_is_copied_once_and_found_from_then_on(disk: Disk, tmp_path: Path) -> None:
    item = source(tmp_path, "a.bin")
    first, second = bring(disk, [item]), bring(disk, [item])
    assert (first.copied, first.bytes, first.found) == (1, 4095, 0)
    assert (second.copied, second.bytes, second.found) == (0, 0, 1)
    copy = Path(item.below(disk.entries))
    assert copy.name == "a.bin"
    assert copy.read_bytes() == Path(item.source).read_bytes()
    assert not copy.stat().st_mode & 0o222, "all tasks of the node share it"


def test_a_directory_is_copied_with_what_is_in_it(disk: Disk, tmp_path: Path) -> None:
    folder = tmp_path / "shared" / "tree"
    (folder / "inner").mkdir(parents=True)
    for number in range(20):
        (folder / "inner" / f"{number}").write_text(str(number))
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("inner")
    item = item_of(str(folder), "d")
    assert bring(disk, [item]).bytes == sum(len(str(number)) for number in range(20))
    copy = Path(item.below(disk.entries))
    assert sorted(os.listdir(copy)) == ["empty", "inner", "link"]
    assert (copy / "inner" / "17").read_text() == (copy / "link" / "17").read_text() == "17"


@pytest.mark.parametrize("way", ["_by_range", "_by_sendfile", "_by_hand"])
def test_a_large_file_is_copied_in_parts_by_whatever_the_system_has(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(copying, "PART", 10_000)
    monkeypatch.setattr(bringing, "PART", 10_000)
    monkeypatch.setattr(copying, "STEP", 3_000)
    monkeypatch.setattr(copying, "_by_range", getattr(copying, way))
    item = item_of(str(tmp_path / "large"), "large")
    Path(item.source).write_bytes(os.urandom(123_457))
    assert bring(disk, [item]).bytes == 123_457
    assert Path(item.below(disk.entries)).read_bytes() == Path(item.source).read_bytes()


def test_processes_that_want_the_same_wait_for_the_first(disk: Disk, tmp_path: Path) -> None:
    items = [source(tmp_path, f"{number}.bin", 200 * KIB) for number in range(10)]
    context = multiprocessing.get_context("fork")

    def work(number: int) -> None:
        (tmp_path / f"told.{number}").write_text(json.dumps(bring(disk, items)._asdict()))

    workers = [context.Process(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 4
    brought = [StagingReport(**json.loads((tmp_path / f"told.{number}").read_text())) for number in range(4)]
    assert sum(one.copied for one in brought) == 10
    assert all(one.copied + one.found == 10 for one in brought)
    assert len(names(disk)) == 10


def test_a_copy_whose_process_was_killed_is_no_copy(disk: Disk, tmp_path: Path) -> None:
    item = source(tmp_path, "a.bin", 64 * KIB)

    def die() -> None:
        os._exit(9)

    assert in_another_process(lambda: bring(disk, [item], die)) == 9
    assert names(disk) == []
    assert os.listdir(f"{disk.root}/parts") == [item.key]
    assert bring(disk, [item]).copied == 1
    assert Path(item.below(disk.entries)).read_bytes() == Path(item.source).read_bytes()
    assert os.listdir(f"{disk.root}/parts") == []


def test_nothing_is_copied_to_the_disk_that_it_lies_on(tmp_path: Path) -> None:
    item = source(tmp_path, "a.bin")
    brought, entries = fetch([item], Local(), {"TMPDIR": str(tmp_path)})
    assert (brought.copied, brought.warning, entries) == (0, "", "")
    brought, entries = fetch([item], Local(), {"DIEL_LOCAL_DIR": str(tmp_path)})
    assert (brought.copied, entries) == (1, f"{tmp_path}/diel-{os.getuid()}/entries")


def test_a_disk_that_cannot_be_used_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    brought, entries = fetch([source(tmp_path, "a")], Local(str(tmp_path / "file")), {})
    assert entries == ""
    assert brought.warning == f"{tmp_path}/file cannot be used: Not a directory"


def test_a_full_disk_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(read: int, write: int, start: int, count: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copying, "_by_range", full)
    item = source(tmp_path, "a")
    brought, entries = fetch([item], Local(str(tmp_path / "disk")), {})
    assert entries == ""
    assert brought.warning.endswith("No space left on device")
    assert not list((tmp_path / "disk").glob("diel-*/parts/*"))


@pytest.mark.parametrize("harm", ["gone", "short", "sized"])
def test_a_copy_that_is_not_whole_any_more_is_brought_again(disk: Disk, tmp_path: Path, harm: str) -> None:
    item = source(tmp_path, "a.bin")
    bring(disk, [item])
    copy = Path(item.below(disk.entries))
    if harm == "gone":
        copy.unlink()
    elif harm == "short":
        os.truncate(copy, 100)
    else:
        Path(disk.entries, item.key, "size").write_text("")
    assert bring(disk, [item]).copied == 1
    assert copy.read_bytes() == Path(item.source).read_bytes()


def test_a_directory_that_cannot_be_read_is_not_taken_for_an_empty_one(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shared" / "tree"
    (folder / "inner").mkdir(parents=True)
    scan = os.scandir

    def stale(path: str) -> object:
        if str(path).endswith("/inner"):
            raise OSError(116, "Stale file handle", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", stale)
    with pytest.raises(OSError, match="Stale file handle"):
        bring(disk, [item_of(str(folder), "d")])
    assert names(disk) == []
