"""Workflows that diel and other packages bring: what each does and needs, and the files that it has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from diel.expressions import texts_in
from diel.load import Document, load
from diel.load.packaged import workflow_of, workflows
from diel.modules.catalogue import ModuleNotFound, find, search_path
from diel.paths import shipped
from diel.spec.forms.rows import FileForm

_OWN = "diel:"
_BESIDE = re.compile(r"[^/~*\n][^\n]*")
"""A path in the folder of the workflow, or a pattern of several."""
_TIME = re.compile(r"\b(seconds?|minutes?|hours?)\b")


class ShippedWorkflow(NamedTuple):
    """A workflow of a package, in the words of its file."""

    name: str
    does: str
    needs: str
    takes: str


def entries() -> list[ShippedWorkflow]:
    """All workflows that packages bring."""
    found = []
    for name, path in workflows():
        text = path.read_text("utf-8", "replace")
        does = re.search(r"^description: *(.*)$", text, re.MULTILINE)
        found.append(
            ShippedWorkflow(name.removeprefix(_OWN), does[1].strip("\"'") if does else "", *_head(text))
        )
    return found


def needs_of(path: Path) -> str:
    """What a workflow needs, as its file says."""
    return _head(path.read_text("utf-8", "replace"))[0]


def _head(text: str) -> tuple[str, str]:
    """What a workflow needs, and how long it takes: sentences of the comment at its beginning."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("# "):
            break
        lines.append(line.removeprefix("# "))
    said = [one.rstrip(".") for one in re.split(r"(?<=[.?])\s+(?=[A-Z])", " ".join(lines))]
    needs = next((one.removeprefix("Needs ") for one in said if one.startswith("Needs ")), "")
    return needs.replace("`", ""), said[-1] if _TIME.search(said[-1]) else ""


def files_of(word: str) -> dict[Path, Path]:
    """The file of a workflow and all that it reads, by their place in a project: the first is its own.

    Raises HintedError where no package has it, SpecError where it is wrong.
    """
    path = workflow_of(word if ":" in word else f"{_OWN}{word}")
    document, folder = load(path), path.parent
    found = {Path(path.name): path}
    for name in document.included:
        if ":" not in name:  # what a package brings stays there
            found[Path(name).relative_to(folder)] = Path(name)
    for place, path in (*_modules(document, folder), *_data(document, folder)):
        found.setdefault(place, path)
    return found


def _modules(document: Document, folder: Path) -> Iterator[tuple[Path, Path]]:
    """The files of its modules that are beside it, or that diel ships; and files beside them that parameters
    name as `FILE:NAME`."""
    for name, stage in document.spec.stages.items():
        if stage.module is None:
            continue
        home = document.home(("stages", name, "module")) or folder
        try:
            module = find(stage.module, search_path(home, home))
        except ModuleNotFound:
            continue  # of a package that is still to be installed
        if module.path.is_relative_to(home):
            place = module.path.relative_to(folder)
        elif module.path.is_relative_to(shipped("modules")):
            place = Path("modules") / module.path.relative_to(shipped("modules"))
        else:
            continue
        yield place, module.path
        for path in sorted(module.path.parent.glob("*.py")):
            if re.search(rf"\b{path.stem}:\w", document.text):
                yield place.with_name(path.name), path


def _data(document: Document, folder: Path) -> Iterator[tuple[Path, Path]]:
    """The files that it names: of stages, axes and environments; those of single points by a pattern."""
    spec = document.spec
    named = [each for stage in spec.stages.values() for each in stage.files.values()]
    words = [str(getattr(one, "template", one)) for one in named]
    words += [text for one in spec.environments.values() for _, text in texts_in(one.model_dump())]
    words += [axis.path for axis in spec.axes.values() if isinstance(axis, FileForm)]
    for word in words:
        pattern = re.sub(r"\$\{\{.*?\}\}", "*", word, flags=re.DOTALL)
        if _BESIDE.fullmatch(pattern) is None or ".." in Path(pattern).parts:
            continue
        for top in folder.glob(pattern):
            for path in sorted(top.rglob("*")) if top.is_dir() else (top,):
                if path.is_file():
                    yield path.relative_to(folder), path
