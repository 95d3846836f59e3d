"""Templates of a stage: what is written, and what of it is in the key."""

from __future__ import annotations

from typing import Any

import pytest

from diel.artifacts import Artifact
from diel.errors import ModuleError
from diel.spec import Stage
from diel.spec.data import Filling, Rendering
from diel.tasks.texts import Renderings

TEXT = "${{ x }} ${{ inputs.mesh }} ${{ join(make.all) }} ${{ run.id }} ${{ files.deck }} ${{ task.id }}"


def of(text: str, path: str | None = None) -> Renderings:
    stage = Stage.model_validate(
        {"command": ["true"], "files": {"deck": {"template": "a/d.in", "path": path}}}
    )
    given = stage.files["deck"]
    assert isinstance(given, Rendering)
    given.fill(Filling(text, True))
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
