"""The cache: results of earlier runs are found by their key, and used only where all of them is there."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from diel.base.paths import RunPaths
from diel.store.journal.segment import SegmentWriter
from diel.store.project.cache import Cache, Keys, open_keys, pruned_key, write_keys
from diel.store.project.lease import Lease
from tests.record import as_record

FAMILY = "f" * 32


class Runs:
    """A directory of runs that are over, and a new one that asks them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._clock = 0
        self.new = self.run("new-1", {}, family="")

    def run(self, name: str, results: dict[str, dict[str, Any]], family: str = FAMILY) -> RunPaths:
        """A run whose tasks gave these results, by key."""
        paths = RunPaths(self.folder / name)
        paths.journal.mkdir(parents=True)
        paths.lease.write_text("{}")
        self._clock += 1
        paths.run_file.write_text("{}")
        os.utime(paths.run_file, (self._clock, self._clock))
        write(paths, "controller-0001.jsonl", {"event": "stage", "stage": "s", "family": family})
        self.add(paths, results)
        return paths

    def add(self, paths: RunPaths, results: dict[str, dict[str, Any]]) -> None:
        name = f"worker-0001-n-{len(list(paths.journal.iterdir()))}-a.jsonl"
        write(paths, name, *({"event": "done", "stage": "s", "key": k, **r} for k, r in results.items()))

    def find(self, key: str, family: str = FAMILY) -> Any:
        return as_record(Cache(self.folder, self.new).find(family, key))


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / "runs")


def write(paths: RunPaths, name: str, *records: dict[str, Any]) -> None:
    writer = SegmentWriter(paths.journal / name)
    writer.append(*as_record(records))
    writer.close()


def digest(data: bytes) -> str:
    return str(xxhash.xxh3_128_hexdigest(data))


def key(number: int) -> str:
    return f"{number:032x}"


# --- looking a key up ---------------------------------------------------------------------------

EVEN = st.integers(0, 2**128 - 1)
UNEVEN = st.one_of(
    st.integers(0, 5),
    st.integers(2**128 - 5, 2**128 - 1),
    st.integers(0, 9).map(lambda n: (1 << 64) + n),  # the same first half
    EVEN,
)


def opened(numbers: list[int]) -> Keys:
    """Keys as a file holds them; the offset of each is its place."""
    placed = enumerate(numbers)
    entries = [n.to_bytes(16) + (place % 3).to_bytes(4) + place.to_bytes(6) for place, n in placed]
    data = b"head" + b"".join(sorted(entries))
    return Keys(RunPaths(Path("x")), ("a", "b", "c"), frozenset(), data, 4, len(entries))


@pytest.mark.parametrize("numbers", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_every_key_is_found_and_no_other(numbers: st.SearchStrategy[int]) -> None:
    @given(st.lists(numbers, unique=True, max_size=60), st.lists(numbers, max_size=10))
    def holds(there: list[int], asked: list[int]) -> None:
        keys = opened(there)
        for place, number in enumerate(there):
            assert keys.find(number.to_bytes(16)) == ("abc"[place % 3], place)
        for number in set(asked) - set(there):
            assert keys.find(number.to_bytes(16)) is None

    holds()


def test_a_lookup_among_many_keys_reads_few_of_them() -> None:
    class Counting(bytes):
        reads = 0

        def __getitem__(self, part: Any) -> Any:
            Counting.reads += 1
            return super().__getitem__(part)

    count = 20_000
    entries = sorted(os.urandom(16) + bytes(10) for _ in range(count))
    keys = Keys(RunPaths(Path("x")), ("a",), frozenset(), Counting(b"".join(entries)), 0, count)
    asked = entries[:: count // 50]
    assert all(keys.find(entry[:16]) == ("a", 0) for entry in asked)
    assert Counting.reads / len(asked) < 10


# --- across runs --------------------------------------------------------------------------------


def test_a_result_of_an_earlier_run_is_found_with_the_run_that_made_it(runs: Runs) -> None:
    runs.run("w-1", {key(n): {"values": {"x": n}} for n in range(100)})
    for n in (0, 57, 99):
        found = runs.find(key(n))
        assert found is not None
        assert (found["values"], found["run"]) == ({"x": n}, "w-1")
    assert runs.find(key(100)) is None


def test_the_newest_run_that_has_a_result_is_asked(runs: Runs) -> None:
    runs.run("w-1", {key(1): {"values": {"x": "old"}}, key(2): {"values": {"x": "only"}}})
    runs.run("w-2", {key(1): {"values": {"x": "new"}}})
    assert [runs.find(key(n))["values"]["x"] for n in (1, 2)] == ["new", "only"]


def test_a_result_that_came_from_the_cache_itself_names_its_first_maker(runs: Runs) -> None:
    paths = runs.run("w-2", {})
    line = {"event": "cached", "stage": "s", "key": key(1), "run": "w-1", "values": {"x": 1}}
    write(paths, "controller-0002.jsonl", line)
    assert runs.find(key(1))["run"] == "w-1"


def test_a_run_is_not_asked_about_itself(runs: Runs) -> None:
    paths = runs.run("w-1", {key(1): {}})
    assert Cache(runs.folder, paths).find(FAMILY, key(1)) is None


def test_another_family_is_not_asked(runs: Runs) -> None:
    runs.run("w-1", {key(1): {}})
    assert runs.find(key(1), family="0" * 32) is None


def test_what_a_pruned_task_reported_is_found_by_the_metric_the_longest_of_all_runs(runs: Runs) -> None:
    task = key(7)
    for name, metric, reported in (
        ("old-1", "loss", [[1, 0.5], [2, 0.25]]),
        ("old-2", "loss", [[1, 0.5]]),
        ("old-3", "cost", [[1, 9.0], [2, 9.0], [3, 9.0]]),
    ):
        made = {"event": "pruned", "key": pruned_key(task, metric), "metric": metric, "reported": reported}
        write(runs.run(name, {}), "controller-0002.jsonl", {**made, "stage": "s", "index": 0})
    cache = Cache(runs.folder, runs.new)
    assert cache.reported(FAMILY, task, "loss") == [(1, 0.5), (2, 0.25)]
    assert cache.reported(FAMILY, task, "cost") == [(1, 9.0), (2, 9.0), (3, 9.0)]
    assert cache.reported(FAMILY, task, "time") == []
    assert cache.find(FAMILY, task) is None


def test_what_an_older_diel_kept_of_a_pruned_task_names_no_metric_and_is_not_taken(runs: Runs) -> None:
    turned = f"{2**128 - 1 - 7:032x}"  # its key: that of the task, with all bits turned round
    old = {"event": "pruned", "stage": "s", "index": 0, "key": turned, "reported": [[1, 0.5]]}
    write(runs.run("old-1", {}), "controller-0002.jsonl", old)
    cache = Cache(runs.folder, runs.new)
    assert cache.reported(FAMILY, key(7), "loss") == []


def test_a_failed_attempt_is_no_result(runs: Runs) -> None:
    paths = runs.run("w-1", {})
    write(paths, "worker-0001-n-9-a.jsonl", {"event": "fail", "stage": "s", "key": key(1)})
    assert runs.find(key(1)) is None


def test_what_a_result_says_is_not_taken_for_its_key(runs: Runs) -> None:
    nasty = {"values": {"key": key(2), "\ud800": f'"key":"{key(3)}"', "event": "stage"}}
    runs.run("w-1", {key(1): nasty})
    assert runs.find(key(1))["values"] == nasty["values"]
    assert runs.find(key(2)) is runs.find(key(3)) is None


def test_a_torn_result_is_none_and_those_before_it_are(runs: Runs) -> None:
    paths = runs.run("w-1", {key(1): {}, key(2): {}})
    (segment,) = paths.journal.glob("worker-*")
    segment.write_bytes(segment.read_bytes()[:-2])
    assert runs.find(key(1)) is not None
    assert runs.find(key(2)) is None


# --- the file of keys ---------------------------------------------------------------------------


def test_a_run_that_was_killed_gets_its_keys_from_whoever_looks(runs: Runs) -> None:
    paths = runs.run("w-1", {key(1): {}})
    assert not paths.cache_keys.exists()
    assert runs.find(key(1)) is not None
    assert paths.cache_keys.exists()


def test_results_that_were_added_later_are_found(runs: Runs) -> None:
    paths = runs.run("w-1", {key(1): {}})
    write_keys(paths)
    os.utime(paths.journal / "controller-0001.jsonl", (1, 1))
    runs.add(paths, {key(2): {"values": {"x": 2}}})
    assert runs.find(key(2)) is not None
    assert runs.find(key(1)) is not None


@pytest.mark.parametrize(
    "damage",
    [b"", b"\n", b"\xff\xff\n", b"null\n", b"[]\n", b"3\n", b"{}\n", b'{"version": 0}\n', b"{" * 100_000],
    ids=lambda damage: repr(damage[:20]),
)
def test_a_file_of_keys_that_cannot_be_read_is_made_anew(runs: Runs, damage: bytes) -> None:
    paths = runs.run("w-1", {key(1): {}})
    write_keys(paths)
    paths.cache_keys.write_bytes(damage)
    assert runs.find(key(1)) is not None


@pytest.mark.parametrize("left", ["journal", "segments", "families"])
def test_a_header_that_lacks_something_is_made_anew(runs: Runs, left: str) -> None:
    paths = runs.run("w-1", {key(1): {}})
    write_keys(paths)
    head, _, rest = paths.cache_keys.read_bytes().partition(b"\n")
    header = json.loads(head)
    del header[left]
    paths.cache_keys.write_bytes(json.dumps(header).encode() + b"\n" + rest)
    assert runs.find(key(1)) is not None


@pytest.mark.parametrize("cut", [1, 10, 26, 30])
def test_a_file_of_keys_that_was_cut_short_gives_no_wrong_result(runs: Runs, cut: int) -> None:
    paths = runs.run("w-1", {key(n): {"values": {"x": n}} for n in range(10)})
    write_keys(paths)
    paths.cache_keys.write_bytes(paths.cache_keys.read_bytes()[:-cut])
    for n in range(9 if cut <= 26 else 8):
        assert runs.find(key(n))["values"] == {"x": n}
    assert runs.find(key(9)) is None


def test_entries_that_point_at_other_records_give_no_wrong_result(runs: Runs) -> None:
    paths = runs.run("w-1", {key(n): {"values": {"x": n}} for n in range(10)})
    write_keys(paths)
    data = bytearray(paths.cache_keys.read_bytes())
    places = [data.index(b"\n") + 1 + entry * 26 + 20 for entry in range(10)]
    offsets = [data[at : at + 6] for at in places]
    for at, offset in zip(places, [*offsets[1:], (7).to_bytes(6)], strict=True):
        data[at : at + 6] = offset
    paths.cache_keys.write_bytes(data)
    assert [runs.find(key(n)) for n in range(10)] == [None] * 10


def test_a_run_that_never_began_or_cannot_be_read_is_passed_over(runs: Runs) -> None:
    never = runs.run("w-1", {key(1): {}})
    never.lease.unlink()
    assert open_keys(never) is None
    gone = runs.run("w-2", {key(1): {}})
    for segment in gone.journal.iterdir():
        segment.unlink()
        segment.mkdir()
    assert open_keys(gone) is None
    assert runs.find(key(1)) is None


def test_a_segment_that_vanished_after_its_keys_were_written_gives_no_result(runs: Runs) -> None:
    paths = runs.run("w-1", {key(1): {}})
    cache = Cache(runs.folder, runs.new)
    (segment,) = paths.journal.glob("worker-*")
    segment.unlink()
    assert cache.find(FAMILY, key(1)) is None


# --- artifacts ----------------------------------------------------------------------------------


@pytest.fixture
def made(runs: Runs) -> Path:
    """The artifact of the one result there is."""
    artifact = {"path": "tasks/s/0/out.csv", "size": 3, "digest": digest(b"abc")}
    paths = runs.run("w-1", {key(1): {"artifacts": {"out": artifact}}})
    path = paths.root / "tasks/s/0/out.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"abc")
    return path


def test_a_result_whose_artifacts_are_there_is_used(runs: Runs, made: Path) -> None:
    assert runs.find(key(1)) is not None


def test_a_result_whose_artifact_vanished_or_changed_is_not_used(runs: Runs, made: Path) -> None:
    made.write_bytes(b"abcd")
    assert runs.find(key(1)) is None
    made.write_bytes(b"abd")
    assert runs.find(key(1)) is None
    made.unlink()
    assert runs.find(key(1)) is None
    made.symlink_to("nowhere")
    assert runs.find(key(1)) is None


def test_an_older_run_that_has_it_whole_is_used_instead(runs: Runs, made: Path) -> None:
    artifact = {"path": "tasks/s/0/out.csv", "size": 3, "digest": digest(b"abc")}
    runs.run("w-2", {key(1): {"artifacts": {"out": artifact}}})
    assert runs.find(key(1))["run"] == "w-1"


def test_a_directory_is_an_artifact_that_is_there_or_not(runs: Runs) -> None:
    artifact = {"path": "tasks/s/0/fields", "size": 30, "digest": digest(b"")}
    paths = runs.run("w-1", {key(1): {"artifacts": {"out": artifact}}})
    assert runs.find(key(1)) is None
    (paths.root / "tasks/s/0/fields").mkdir(parents=True)
    assert runs.find(key(1)) is not None


def test_what_a_run_that_goes_on_will_delete_is_not_offered(runs: Runs) -> None:
    paths = runs.run("old-1", {})
    (paths.root / "a").write_text("x")
    entry = {"path": "a", "size": 1, "digest": digest(b"x")}
    runs.add(
        paths, {key(1): {"artifacts": {"a": {**entry, "keep": False}}}, key(2): {"artifacts": {"a": entry}}}
    )
    process = psutil.Process()
    lease = Lease(1, socket.gethostname(), process.pid, process.create_time())
    paths.lease.write_text(json.dumps(lease._asdict()))
    assert runs.find(key(1)) is None
    assert runs.find(key(2)) is not None
    with open(paths.controller_segment(1), "a") as file:
        file.write('{"event":"end"}\n')
    assert runs.find(key(1)) is not None


def test_an_output_may_have_the_name_of_a_field(runs: Runs) -> None:
    runs.run(
        "old-1",
        {key(1): {"values": {"before": 1, "same": 2}}, key(2): {"values": {"a": {"b": 0, "same": 1}}}},
    )
    assert runs.find(key(1))["values"] == {"before": 1, "same": 2}
    assert runs.find(key(2))["values"] == {"a": {"b": 0, "same": 1}}
