"""`keep: false`: an artifact goes once all that read it have ended well, and not before."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from diel.store.journal.segment import SegmentWriter
from diel.store.project.runs import create_run
from diel.tasks.artifact_gc import ArtifactCollector, Readers, delete, reading
from tests.controller.bench import Bench
from tests.record import as_record


def made(bench: Bench, stage: str, index: int = 0, **more: Any) -> Path:
    """A task has written a file; returns where."""
    path = bench.paths.tasks / stage / str(index) / "a.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{stage}/{index}")
    entry = {"path": str(path.relative_to(bench.paths.root)), "size": 3, "digest": "d"}
    record = {"event": "done", "stage": stage, "index": index, "attempt": 1, "seconds": 0.0, "values": {}}
    record["artifacts"] = {"a": entry}
    bench.commit(stage, index, {**record, **more})
    return path


def dropped(bench: Bench, stage: str = "make") -> set[int]:
    return bench.ledger.history.stage(stage).dropped.get("a", set())


def flow(text: str, make: str = "over: [i], ") -> str:
    head = f"""
    axes: {{i: {{range: 3}}, j: {{range: 2}}}}
    stages:
      make: {{{make}command: [./make.sh], outputs: {{a: {{path: a.csv, keep: false}}}}}}
    """
    return textwrap.dedent(head) + textwrap.indent(textwrap.dedent(text).lstrip("\n"), "  ")


MATCHED = flow("use: {over: [i], command: [./use.sh], inputs: {a: make.a}}\n")


def test_a_matched_artifact_goes_with_its_reader(workspace: Path) -> None:
    bench = Bench(workspace, MATCHED)
    files = [made(bench, "make", index) for index in range(3)]
    bench.done("use", 1)
    assert [path.exists() for path in files] == [True, False, True]
    assert dropped(bench) == {1}
    bench.done("use", 0)
    assert [path.exists() for path in files] == [False, False, True]


def test_a_gathered_artifact_waits_for_the_one_reader_of_all(workspace: Path) -> None:
    bench = Bench(workspace, flow("use: {command: [./use.sh], inputs: {a: make.a}}\n"))
    files = [made(bench, "make", index) for index in range(3)]
    assert all(path.exists() for path in files)
    bench.done("use")
    assert not any(path.exists() for path in files)
    assert dropped(bench) == {0, 1, 2}


def test_every_reader_counts_by_whatever_edge(workspace: Path) -> None:
    text = """
    use: {over: [j], command: [./use.sh], inputs: {a: make.a}}
    word: {command: [./word.sh, "${{ make.a }}"]}
    """
    bench = Bench(workspace, flow(text, make=""))
    path = made(bench, "make")
    for stage, index in (("use", 0), ("word", 0)):
        bench.done(stage, index)
        assert path.exists()
    bench.done("use", 1)
    assert not path.exists()


def test_a_reader_that_failed_may_need_it_again(workspace: Path) -> None:
    bench = Bench(workspace, flow("use: {over: [j], command: [./use.sh], inputs: {a: make.a}}\n", make=""))
    path = made(bench, "make")
    bench.done("use", 0)
    bench.fail("use", 1)
    assert path.exists()
    assert not dropped(bench)


def test_only_the_picked_task_is_read(workspace: Path) -> None:
    bench = Bench(workspace, flow("use: {command: [./use.sh], inputs: {a: {from: make.a, at: {i: 1}}}}\n"))
    files = [made(bench, "make", index) for index in range(3)]
    bench.done("use")
    assert not files[1].exists()


def test_what_a_loop_reads_of_the_round_before_goes_when_the_loop_is_over(workspace: Path) -> None:
    text = """
    axes: {r: {loop: {max: 2}}}
    stages:
      make:
        over: [r]
        command: [./make.sh]
        inputs: {before: {from: make.a, at: {r: previous}, initially: null}}
        outputs: {a: {path: a.csv, keep: false}}
      use: {command: [./use.sh], inputs: {a: {from: make.a, at: {r: last}}}}
    """
    bench = Bench(workspace, text)
    first, second = (made(bench, "make", index) for index in range(2))
    assert first.exists()
    assert second.exists()
    bench.done("use")
    assert not first.exists()
    assert not second.exists()


def test_an_earlier_runs_artifact_is_left_alone(workspace: Path) -> None:
    bench = Bench(workspace, MATCHED)
    path = made(bench, "make", 0, run="w-0")
    bench.done("use", 0)
    assert path.exists()
    assert not dropped(bench)


def test_what_another_output_is_part_of_is_left_alone(tmp_path: Path) -> None:
    inner = tmp_path / "tasks" / "s" / "0" / "frames"
    inner.mkdir(parents=True)
    (inner / "1").write_text("abc")
    (tmp_path / "secret").write_text("s")
    (tmp_path / "tasks" / "s" / "0" / "link").symlink_to(tmp_path / "secret")
    whole = {"path": "tasks/s/0/frames", "size": 3, "digest": "d"}
    part = {"path": "tasks/s/0/frames/1", "size": 3, "digest": "e"}
    link = {"path": "tasks/s/0/link", "size": 1, "digest": "f"}
    both = {"artifacts": {"whole": whole, "part": part, "link": link}}
    assert (
        delete(as_record(both), "s", "whole", tmp_path)
        is delete(as_record(both), "s", "part", tmp_path)
        is None
    )
    assert delete(as_record(both), "s", "link", tmp_path) is None
    assert delete({"artifacts": {"whole": whole}}, "s", "whole", tmp_path) == 3
    assert not inner.exists()
    assert (tmp_path / "secret").exists()


def test_a_list_of_files_goes_as_one(tmp_path: Path) -> None:
    folder = tmp_path / "tasks" / "s" / "0"
    folder.mkdir(parents=True)
    for name in ("a", "b", "kept"):
        (folder / name).write_text(name)
    files = [{"path": f"tasks/s/0/{name}", "size": 1, "digest": name} for name in ("a", "b")]
    assert delete({"artifacts": {"x": {"files": files, "size": 2}}}, "s", "x", tmp_path) == 2
    assert [path.name for path in folder.iterdir()] == ["kept"]


def test_what_an_axis_is_made_of_has_no_end_of_use(workspace: Path) -> None:
    bench = Bench(
        workspace,
        """
        axes: {k: {from: make.a}}
        stages:
          make: {command: [./make.sh], outputs: {a: a.csv}}
          use: {over: [k], command: [./use.sh, "${{ make.a }}"]}
        """,
    )
    links = [link for into in bench.stages.into.values() for link in into]
    assert not Readers(reading(links)).links


@pytest.mark.parametrize("ended", [True, False])
def test_the_next_controller_goes_on_where_the_last_one_was(workspace: Path, ended: bool) -> None:
    text = flow("use: {over: [j], command: [./use.sh], inputs: {a: make.a}}\n", make="")
    bench = Bench(workspace, text)
    path = made(bench, "make")
    for index in range(2 if ended else 1):
        bench.done("use", index)
    assert path.exists() is not ended
    path.write_text("killed before it was deleted")
    bench.ledger.history.stage("make").dropped.clear()
    keeping = ArtifactCollector(bench.stages.runs, bench.stages.into["use"], bench.ledger)
    keeping.note_open(bench.stages.runs["use"])
    keeping.catch_up()
    assert path.exists() is not ended
    if not ended:
        bench.done("use", 1)
        assert not path.exists()


def test_what_another_run_took_before_this_one_was_resumed_stays(workspace: Path) -> None:
    bench = Bench(workspace, MATCHED)
    lent = made(bench, "make", 0)
    other = create_run(bench.paths.root.parent, "other")
    other.run_file.write_text("{}")
    writer = SegmentWriter(other.controller_segment(1))
    writer.append(
        as_record(
            {
                "event": "cached",
                "stage": "make",
                "index": 0,
                "run": bench.paths.run_id,
                "seconds": 1.0,
                "time": 1.0,
            }
        )
    )
    writer.close()
    bench.resumed()
    own = made(bench, "make", 1)
    bench.done("use", 0)
    bench.done("use", 1)
    assert lent.exists()
    assert not own.exists(), "nobody else had a chance to take what was made since"


def test_readers_of_one_task_each_are_not_counted_in_memory(workspace: Path) -> None:
    bench = Bench(workspace, MATCHED)
    keeping = bench.stages._keeping
    assert keeping is not None
    for index in range(3):
        made(bench, "make", index)
        bench.done("use", index)
    assert dropped(bench) == {0, 1, 2}
    assert not keeping._readers._counts


def test_a_list_of_which_one_file_must_stay_stays_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "tasks" / "s" / "0"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / name).write_text(name)
    files = [{"path": f"tasks/s/0/{name}", "size": 1, "digest": name} for name in ("a", "b")]
    both = {"artifacts": {"all": {"files": files, "size": 2}, "last": files[1]}}
    assert delete(as_record(both), "s", "all", tmp_path) is None
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b"]
