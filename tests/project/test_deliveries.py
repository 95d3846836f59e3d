"""A run delivers once: not over what somebody edited since, nor over what a newer run has delivered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.throwaway import Project, wait_for

FLOW = """
hyperparameters: {x: {type: int, default: 1}}
stages:
  make: {command: 'mkdir d; touch d/only${{ hp.x }}; echo ${{ hp.x }} | tee d/a > f', outputs: {f: {path: f, export: out.txt}, d: {path: d, export: tree}}}
  then: {command: 'cat ${{ make.f }}; test -e ${{ run.dir }}/go'}
"""


@pytest.fixture
def failed(tmp_path: Path) -> Project:
    """A run whose last task has failed, and that has delivered."""
    project = Project(tmp_path).workflow(FLOW)
    project.run(code=1)
    (tmp_path / "runs" / "flow-1" / "go").touch()
    assert (tmp_path / "out.txt").read_text() == "1\n"
    return project


def test_what_was_edited_since_stays(failed: Project) -> None:
    (failed.folder / "out.txt").write_text("my own\n")
    (failed.folder / "tree" / "a").unlink()
    said = failed.diel("resume", "flow-1")
    assert "out.txt was changed since; remove it, and `diel resume flow-1` puts it back" in said
    assert (failed.folder / "out.txt").read_text() == "my own\n"
    assert (failed.folder / "tree" / "a").read_text() == "1\n", "what was removed is put back"
    failed.diel("resume", "flow-1")
    assert (failed.folder / "out.txt").read_text() == "my own\n"
    (failed.folder / "out.txt").unlink()
    failed.diel("resume", "flow-1")
    assert (failed.folder / "out.txt").read_text() == "1\n"


def test_what_a_newer_run_delivered_stays_and_a_directory_is_that_of_one_run(failed: Project) -> None:
    (failed.folder / "tree" / "mine").touch()
    failed.run("--set", "hp.x=2", code=1)
    tree = failed.folder / "tree"
    assert {path.name for path in tree.iterdir()} == {"a", "only2", "mine"}
    said = failed.diel("resume", "flow-1")
    assert "is as flow-2 delivered it, which is newer; this run has " in said
    assert (failed.folder / "out.txt").read_text() == (tree / "a").read_text() == "2\n"
    assert {path.name for path in tree.iterdir()} == {"a", "only2", "mine"}
    failed.diel("resume", "flow-1")
    assert (failed.folder / "out.txt").read_text() == "2\n"


def test_a_list_of_files_is_that_of_the_last_run(tmp_path: Path) -> None:
    text = """
        stages:
          make: {command: 'mkdir d; touch d/FIRST d/b', outputs: {d: {glob: "d/*", export: out/}}}
          other: {command: 'touch c', outputs: {c: {path: c, export: out/}}}
    """
    project = Project(tmp_path).workflow(text.replace("FIRST", "a"))
    project.run()
    (tmp_path / "out" / "mine").touch()
    project.workflow(text.replace("FIRST", "z")).run()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"b", "c", "mine", "z"}


def test_of_two_runs_at_once_the_newer_one_delivers_whichever_ends_first(tmp_path: Path) -> None:
    project = (
        Project(tmp_path)
        .workflow("""
        hyperparameters: {x: {type: int, default: 1}}
        axes: {i: {range: 4}}
        stages:
          make:
            over: [i]
            command: 'test ${{ hp.x }} = 2 || until test -e ${{ run.dir }}/go${{ i % 2 }}; do sleep 0.1; done; echo ${{ hp.x }} > f'
            outputs: {f: {path: f, export: "out/${{ i }}"}}
    """)
        .machine("wide", 4)
    )
    older = project.start("run", "flow.yaml", "--site", "wide")
    wait_for(lambda: (tmp_path / "runs" / "flow-1" / "journal").exists())
    (tmp_path / "runs" / "flow-1" / "go0").touch()
    wait_for(lambda: (tmp_path / "out" / "2").exists() and (tmp_path / "out" / "0").exists())
    project.diel("run", "flow.yaml", "--site", "wide", "--set", "hp.x=2")
    (tmp_path / "runs" / "flow-1" / "go1").touch()
    assert "2 exports of make.f met another file" in project.end(older)
    assert [(tmp_path / "out" / str(i)).read_text() for i in range(4)] == ["2\n"] * 4


def test_a_result_that_is_made_anew_is_delivered_anew(failed: Project) -> None:
    (failed.folder / "runs" / "flow-1" / "tasks" / "make" / "0" / "f").unlink()
    (failed.folder / "out.txt").write_text("my own\n")
    failed.diel("resume", "flow-1")
    assert (failed.folder / "out.txt").read_text() == "1\n"


def test_no_run_destroys_what_somebody_wrote(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("mine\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_text("mine too\n")
    project = Project(tmp_path).workflow(FLOW.partition("  then:")[0])
    said = project.diel("run", "flow.yaml")
    assert "out.txt was not as a run has put it there: it is out.txt~ now" in said
    assert [(tmp_path / name).read_text() for name in ("out.txt", "out.txt~")] == ["1\n", "mine\n"]
    assert [(tmp_path / "tree" / name).read_text() for name in ("a", "a~")] == ["1\n", "mine too\n"]
    (tmp_path / "out.txt").write_text("edited\n")
    for words in ((), ("--set", "hp.x=2")):
        said = project.diel("run", "flow.yaml", *words)
        assert (
            f"out.txt was changed since; remove it, and `diel resume {project.newest().id}` puts it back"
            in said
        )
        assert (tmp_path / "out.txt").read_text() == "edited\n"
    (tmp_path / "out.txt").unlink()
    project.diel("resume")
    assert (tmp_path / "out.txt").read_text() == "2\n"
    (tmp_path / "out.txt").touch()
    project.diel("run", "flow.yaml", "--set", "hp.x=3")
    assert (tmp_path / "out.txt").read_text() == "3\n", "the content is as a run has put it there"
    assert {path.name for path in tmp_path.glob("out*")} == {"out.txt", "out.txt~"}


LISTS = """
stages:
  make: {command: 'mkdir d; touch FILES', outputs: {d: {glob: "d/*", export: out/}}}
"""


def test_a_list_has_no_file_of_an_earlier_version_though_its_run_was_removed(tmp_path: Path) -> None:
    project, out = Project(tmp_path).workflow(LISTS.replace("FILES", "d/a d/b d/c")), tmp_path / "out"
    project.run()
    (out / "b").write_text("my own\n")
    project.diel("clean", "--all", "--yes")
    project.workflow(LISTS.replace("FILES", "d/c d/e")).run()
    assert {path.name for path in out.iterdir()} == {"b", "c", "e"}
    said = project.diel("status")
    assert f"1 export of make.d met another file: {out}/a is removed: an earlier run had put it there" in said
    project.diel("clean", "--all", "--yes")
    (out / "e").write_text("my own\n")
    project.workflow(LISTS.replace("FILES", "d/c; echo new > d/c")).run()
    assert (out / "c").read_text() == "new\n", "it is diel's own"
    assert {path.name for path in out.iterdir()} == {"b", "c", "e"}


def test_files_of_another_workflow_beside_a_list_are_told(tmp_path: Path) -> None:
    Project(tmp_path, "first").workflow(LISTS.replace("FILES", "d/a d/b")).run()
    (tmp_path / "out" / "mine").touch()
    project = Project(tmp_path).workflow(LISTS.replace("FILES", "d/b d/c"))
    project.run()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"a", "b", "c", "mine"}
    said = project.diel("status")
    assert f"{tmp_path}/out/a is beside them: 'd' of make of first has put it there" in said
    assert "met another file" not in project.diel("status", "first-1")
