"""Committed results: found again where they stand in the journal."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from diel.base.paths import RunPaths
from diel.store.artifacts import Artifact
from diel.store.journal.segment import SegmentWriter
from diel.tasks import results as module
from diel.tasks.results import Results, artifact_path, output_of, outputs_of
from tests.record import as_record


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    found = RunPaths(tmp_path / "runs" / "w-2")
    found.journal.mkdir(parents=True)
    return found


def test_results_come_back_from_the_journal_when_memory_has_forgotten_them(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECENT", 3)
    results = Results(paths)
    writers = [SegmentWriter(paths.journal / f"worker-0001-{name}.jsonl") for name in "abc"]
    places: dict[tuple[str, int], tuple[str, int]] = {}
    expected: dict[tuple[str, int], dict[str, Any]] = {}
    for number in range(40):
        stage, index = "st"[number % 2], (number * 7) % 40
        record = {"event": "done", "stage": stage, "index": index, "values": {"x": number}}
        writer = writers[number % 3]
        offset = writer.append(as_record(record))
        results.put(stage, index, writer.name, offset, as_record(record))
        places[(stage, index)], expected[(stage, index)] = (writer.name, offset), record
    for (stage, index), record in expected.items():
        assert results.record(stage, index) == record
        assert results.place(stage, index) == places[(stage, index)]


def test_what_was_written_right_before_is_not_read_again(paths: RunPaths) -> None:
    results = Results(paths)
    record = {"event": "done", "values": {"x": 1}}
    results.put("s", 5, "worker-0001-gone.jsonl", 0, as_record(record))
    assert results.record("s", 5) is as_record(record)


RECORD: dict[str, Any] = {
    "event": "done",
    "values": {"x": 0, "n": None},
    "artifacts": {"out": {"path": "tasks/s/0/out.csv", "size": 3, "digest": "d"}},
}


def test_an_output_is_a_value_or_an_artifact_with_its_absolute_path(paths: RunPaths) -> None:
    assert output_of(as_record(RECORD), "x", paths.root) == 0
    assert output_of(as_record(RECORD), "n", paths.root) is None
    artifact = output_of(as_record(RECORD), "out", paths.root)
    assert artifact == str(paths.root / "tasks/s/0/out.csv")
    assert (type(artifact), artifact.digest) == (Artifact, "d")
    assert outputs_of(as_record(RECORD)) == ["x", "n", "out"]
    for record in (RECORD, {"event": "done"}):
        with pytest.raises(KeyError):
            output_of(as_record(record), "other", paths.root)


def test_an_artifact_from_the_cache_lies_in_the_run_that_made_it(paths: RunPaths) -> None:
    cached = {**RECORD, "event": "cached", "run": "w-1"}
    assert output_of(as_record(cached), "out", paths.root) == str(
        paths.root.parent / "w-1" / "tasks/s/0/out.csv"
    )
    assert artifact_path(as_record(cached), "a/b", paths.root) == paths.root.parent / "w-1" / "a" / "b"


def test_an_artifact_travels_to_a_worker_with_its_digest() -> None:
    (again,) = pickle.loads(pickle.dumps([Artifact("/a b/c", "d")]))
    assert (again, again.digest) == ("/a b/c", "d")
