"""Files that differ between tasks: looked up for each point, in the key of their own tasks alone."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import ModuleError
from diel.base.paths import RunPaths
from diel.store.artifacts import Artifact, artifact, identity
from diel.tasks.texts import Files, Renderings, Watch
from diel.workflow.models import Stage
from diel.workflow.models.data import Rendering, TemplateContent
from tests.throwaway import Project

FLOW = """
axes: {row: {file: samples.csv}, k: {range: 2}}
stages:
  count:
    over: [row, k]
    command: 'cat ${{ files.reads }} > n'
    files: {reads: "data/${{ sample }}.txt", table: samples.csv}
    outputs: {n: n}
  pick: {command: 'echo "{\\"name\\": \\"a\\"}" > "$DIEL_RESULT"', outputs: {name: {value: str}}}
  late: {command: ["cat", "${{ files.one }}"], files: {one: "data/${{ pick.name }}.txt"}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path).workflow(FLOW)
    (tmp_path / "data").mkdir()
    for name in "abc":
        (tmp_path / "data" / f"{name}.txt").write_text(name)
    (tmp_path / "samples.csv").write_text("sample,x\na,1\nb,2\nc,3\n")
    return project


def test_one_changed_file_computes_its_own_tasks_anew_and_no_other(project: Project) -> None:
    run = project.run()
    texts = [
        (run.root / made["artifacts"]["n"]["path"]).read_text() for made in run.results("count").values()
    ]
    assert sorted(texts) == ["a", "a", "b", "b", "c", "c"]
    (project.folder / "data" / "b.txt").write_text("another")
    run = project.run()
    assert {i for i, made in run.results("count").items() if made["event"] == "done"} == {2, 3}
    assert run.counts("late") == {"cached": 1}
    told = project.diel("explain", "last", "count/3")
    assert f"the content of files.reads ({project.folder}/data/b.txt) changed" in told
    (project.folder / "data" / "a.txt").write_text("another")
    assert project.run().counts("late") == {"done": 1}


def test_all_files_that_are_missing_are_told_before_the_run(project: Project) -> None:
    for name in "bc":
        (project.folder / "data" / f"{name}.txt").unlink()
    said = project.diel("run", "flow.yaml", code=2)
    place = "flow.yaml:9:20: stages.count.files.reads: 2 of 3 files cannot be read: "
    assert place + "'data/b.txt' (sample = 'b'), 'data/c.txt' (sample = 'c')" in said
    assert not (project.folder / "runs").exists()


def test_a_path_that_is_known_later_fails_its_task_alone(project: Project) -> None:
    text = (project.folder / "flow.yaml").read_text().replace('\\"a\\"', '\\"gone\\"')
    (project.folder / "flow.yaml").write_text(text)
    run = project.run(code=1)
    (failure,) = run.records("failed")
    assert (failure["stage"], failure["class"]) == ("late", "upstream")
    assert failure["message"] == f"files.one: {project.folder}/data/gone.txt is not there"
    assert run.counts("count") == {"done": 6}


def test_tasks_that_are_left_out_need_no_file(project: Project) -> None:
    (project.folder / "data" / "c.txt").unlink()
    text = (
        (project.folder / "flow.yaml")
        .read_text()
        .replace("[row, k]\n", "[row, k]\n    when: sample != 'c'\n")
    )
    (project.folder / "flow.yaml").write_text(text)
    assert "good" in project.diel("validate", "flow.yaml")


def test_a_run_that_goes_on_needs_no_file_of_what_is_done(project: Project) -> None:
    text = (
        (project.folder / "flow.yaml")
        .read_text()
        .replace("cat ${{ files.reads", "test ${{ sample }} != c; cat ${{ files.reads")
    )
    (project.folder / "flow.yaml").write_text(text)
    run = project.run(code=1)
    (project.folder / "data" / "a.txt").unlink()
    project.diel("resume", code=1)
    assert run.counts("count") == {"done": 4, "failed": 2}


def test_a_million_points_are_looked_up_by_what_differs(tmp_path: Path) -> None:
    text = 'axes: {n: {range: 1000000}, m: {range: 1000}}\nstages:\n  s: {over: [n, m], command: [x], files: {a: "${{ m // 500 }}.txt"}}\n'
    (tmp_path / "0.txt").touch()
    started = time.monotonic()
    said = Project(tmp_path).workflow(text).diel("validate", "flow.yaml", code=2)
    assert "1 of 2 files cannot be read: '1.txt' (m = 500)" in said
    assert time.monotonic() - started < 60


def files_of(folder: Path) -> Files:
    watch = Watch(RunPaths(folder / "run"), records=False)
    return Files(Stage(command=("x",), files={"f": "${{ n }}"}), folder, watch)


def test_a_file_is_read_once_however_many_tasks_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("x")
    read: list[str] = []

    def content(path: str, *how: Any) -> tuple[int, str]:
        read.append(path)
        return artifact.content(path, *how)

    monkeypatch.setattr(identity, "content", content)
    files = files_of(tmp_path)
    made = [files.digests({"files": files.paths({"n": "a"})}) for _ in range(3)]
    assert (len(read), made[0] == made[1] == made[2]) == (1, True)
    (tmp_path / "a").write_text("yy")
    with pytest.raises(
        identity.FileChanged, match=r"files\.f: .*/a is not what it was when the run first read it"
    ):
        files.digests({"files": files.paths({"n": "a"})})


@pytest.mark.parametrize("sort", ["pipe", "device", "loop", "long", "nul", "locked", "kernel's"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, sort: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    path = {
        "device": "/dev/zero",
        "long": "x" * 300,
        "nul": "a\0b",
        "locked": "/proc/1/mem",
        "kernel's": "/proc/kmsg",
    }.get(sort, sort)
    files = files_of(tmp_path)
    with pytest.raises(ModuleError, match=r"files\.f: "):
        files.digests({"files": files.paths({"n": path})})


TEXT = "${{ x }} ${{ inputs.mesh }} ${{ join(make.all) }} ${{ run.id }} ${{ files.deck }} ${{ task.id }}"


def of(text: str, path: str | None = None) -> Renderings:
    stage = Stage.model_validate(
        {"command": ["true"], "files": {"deck": {"template": "a/d.in", "path": path}}}
    )
    given = stage.files["deck"]
    assert isinstance(given, Rendering)
    given.fill(TemplateContent(text, True))
    return Renderings(stage)


def scope(run: str = "w-1", content: str = "d1", path: str = "d.in", **more: Any) -> dict[str, Any]:
    mesh = Artifact(f"/runs/{run}/mesh", content)
    files, task = {"deck": path}, {"id": "s/0", "attempt": 3}
    return {"x": 1, "inputs": {"mesh": mesh}, "make": {"all": [mesh, 2]}, "run": {"id": run}} | {
        "files": files,
        "task": task,
        **more,
    }


def test_a_task_gets_paths_and_its_key_their_content() -> None:
    rendered = of(TEXT)
    assert rendered.render(scope()) == (("d.in", "1 /runs/w-1/mesh /runs/w-1/mesh 2 w-1 d.in s/0", True),)
    assert rendered.digests(scope()) == rendered.digests(scope(run="w-2"))
    assert rendered.digests(scope()) != rendered.digests(scope(content="d2"))
    assert rendered.digests(scope()) != rendered.digests(scope(x=2))


def test_two_templates_that_give_the_same_have_one_key_unless_it_is_written_elsewhere() -> None:
    assert of("a ${{ x }}").digests(scope()) == of("a 1").digests(scope())
    assert of("a", "d.in").digests(scope()) == of("a").digests(scope())
    assert of("a").digests(scope(path="e.in")) != of("a").digests(scope())


def test_the_name_of_another_file_is_in_the_key_and_not_its_place() -> None:
    def key(name: str, folder: str) -> dict[str, str]:
        files = {"deck": "d.in", "a": f"{folder}/a.dat", "b": f"{folder}/b.dat"}
        return of(f"${{{{ files.{name} }}}}").digests(scope(files=files))

    assert key("a", "/one") == key("a", "/two") != key("b", "/one")


def test_the_attempt_is_not_in_the_key() -> None:
    text = "${{ task.attempt }}"
    assert of(text).digests(scope(task={"attempt": 2})) == of(text).digests(scope())
    assert of(text).render(scope())[0][1] == "3"


def test_where_a_value_is_missing_the_line_of_the_template_is_told() -> None:
    with pytest.raises(ModuleError, match=r"^a/d.in:2: 'x' is a whole number and has no 'y'"):
        of("\n${{ x.y }}").render(scope())
    with pytest.raises(ModuleError, match="leaves the task's directory"):
        of("a").render(scope(path="/d.in"))


def test_a_path_that_diel_or_another_template_has_is_refused_once_it_is_known() -> None:
    with pytest.raises(ModuleError, match="diel itself writes stdout in the task's directory"):
        of("a").render(scope(path="./stdout"))
    two = {name: {"template": "d.in", "path": f"${{{{ {name} }}}}"} for name in ("x", "y")}
    given = Renderings(Stage.model_validate({"command": ["true"], "files": two}))
    with pytest.raises(ModuleError, match=r"files.y: files.x is written to './in' too"):
        given.render({"files": {"x": "in", "y": "./in"}})
