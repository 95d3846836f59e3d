"""Workflows that installed packages bring, by PACKAGE:NAME; `diel` is a package too."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from diel.errors import HintedError, did_you_mean
from diel.extensions import WORKFLOWS, entry_points_of
from diel.paths import shipped


def folders() -> dict[str, Path]:
    """The folder of workflows of each package; none is imported, but for a package around it."""
    found = {"diel": shipped("workflows")}
    for name, point in entry_points_of(WORKFLOWS).items():
        try:
            spec = find_spec(point.value)
        except ImportError:
            continue  # an entry point of a package that is gone, or broken
        for folder in (spec.submodule_search_locations if spec is not None else None) or ():
            found.setdefault(name, Path(folder))
    return found


def workflows() -> Iterator[tuple[str, Path]]:
    """PACKAGE:NAME and the file of each workflow."""
    for package, folder in folders().items():
        for path in sorted(folder.glob("*.yaml")):
            yield f"{package}:{path.stem}", path


def workflow_of(word: str) -> Path:
    """The file of PACKAGE:NAME. Raises HintedError where there is none."""
    known = dict(workflows())
    if word not in known:
        package = word.partition(":")[0]
        hint = did_you_mean(word, known) or "`diel init --list` lists them"
        packages = {name.partition(":")[0] for name in known}
        if package not in packages:
            raise HintedError(f"no installed package has workflows as '{package}'", hint)
        raise HintedError(f"'{package}' has no workflow '{word.partition(':')[2]}'", hint)
    return known[word]
