"""The version of a result: what its run keeps of the modules and files that it rests on."""

from __future__ import annotations

from contextlib import suppress

from diel.errors import DielError
from diel.modules.sources import newest
from diel.results.view import RunView
from diel.tasks.watched import Watch

DIGITS = 12
"""As many of a digest tell versions apart."""


def version_entry(view: RunView, stage: str, index: int) -> dict[str, str]:
    """Return what a task rests on, with digests, by its name; nothing for a run that keeps no sources."""
    sources = newest(view.run.paths.sources)
    if sources is None:
        return {}
    entry = {"run": f"version {sources.version}"}
    facts = sources.modules.get(stage)
    if facts is not None:
        more = f" with {len(facts['files']) - 1} more files" if len(facts["files"]) > 1 else ""
        entry["module"] = f"{facts['reference']} {facts['digest'][:DIGITS]}{more}"
    recipe = view.recipe(stage)
    digests = {one.path: one.digest for one in Watch(view.run.paths, records=False).recorded()}
    with suppress(DielError, LookupError):  # what its own files are named by is not known yet
        for name, path in {**recipe.sources.files.shared, **recipe.own_files(index)}.items():
            if path in digests:
                entry[f"files.{name}"] = f"{path} {digests[path][:DIGITS]}"
    return entry
