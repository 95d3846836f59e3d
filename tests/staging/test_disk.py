"""A node's own disk: what is used stays, what is not makes way, and nobody else's is taken."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from diel.staging import disk as disks
from diel.staging.disk import Disk, StagingError, bring, local_folder, release
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
