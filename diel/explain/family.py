"""What all tasks of a stage share, compared with an earlier run: module, command, params, files, env."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from diel.explain.difference import Difference, differences, plain
from diel.explain.view import View
from diel.spec import Stage
from diel.table import shown
from diel.tasks.recipe import APART

WIDE = 120


def family_changes(view: View, old: View, stage: str) -> Iterator[Difference]:
    """The parts of a stage's key that differ from an earlier run."""
    parts, old_parts = (v.run.history.stage(stage).parts for v in (view, old))
    new, before = (v.run.workflow.stages[stage] for v in (view, old))
    for part, account in _ACCOUNTS.items():
        if parts.get(part) != old_parts.get(part):
            told = list(differences(part, account(before), account(new)))
            yield from map(_shortened, told) if told else _content_changes(part, view, old, stage)


def _content_changes(part: str, view: View, old: View, stage: str) -> Iterator[Difference]:
    """What differs though the workflow says the same: the source of a module, the content of files."""
    spec = view.run.workflow.stages[stage]
    if part == "module":
        found = view.module(stage)
        where = f" ({found.path})" if found is not None else ""
        yield Difference(part, str(spec.module), f"the source of module '{spec.module}' changed{where}")
    elif part == "files":
        shared = {name: path for name, path in spec.files.items() if "${{" not in path}
        yield from file_changes(shared, old, view.run.run_file.folder)


def _called(prefix: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    return {prefix + name: value for name, value in entries.items()}


def _command(stage: Stage) -> dict[str, Any]:
    """A command as lines, with its shell and its outputs."""
    given = stage.command
    words = given if isinstance(given, tuple) else ("(a module)" if given is None else given,)
    lines = [word if isinstance(word, str) else json.dumps(plain(word)) for word in words]
    shell = {"shell": shlex.join(stage.interpreter)} if stage.interpreter else {}
    outputs = {name: output.model_dump(exclude=APART) for name, output in stage.outputs.items()}
    return {"command": "\n".join(lines), **shell, **_called("outputs.", outputs)}


_ACCOUNTS: Mapping[str, Callable[[Stage], dict[str, Any]]] = {
    "module": lambda stage: {"module": stage.module or "a command"},
    "command": _command,
    "params": lambda stage: _called("params.", stage.params),
    "files": lambda stage: _called("files.", stage.files),
    "env": lambda stage: _called("env.", stage.env),
}
"""What the workflow says of each part, by name."""


def _shortened(change: Difference) -> Difference:
    """Of a command, the first lines that differ, and how many more places there are."""
    if change.name != "command":
        return change
    old, new = str(change.old).splitlines(), str(change.new).splitlines()
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    blocks = [(old[i:j], new[k:m]) for word, i, j, k, m in matcher.get_opcodes() if word != "equal"]
    before, after = (" ⏎ ".join(lines) for lines in blocks[0]) if blocks else ("", "")
    text = f"the command changed: {shown(before, WIDE) or 'nothing'} → {shown(after, WIDE) or 'nothing'}"
    more = f", and in {len(blocks) - 1} more places" if len(blocks) > 1 else ""
    return replace(change, text=text + more)


def file_changes(files: Mapping[str, str], old: View, folder: Path) -> Iterator[Difference]:
    """Files whose content differs from what an earlier run read: the newer ones, or all that it may be."""
    if not files:
        return
    since = old.run.run_file.created
    newer = [name for name, path in files.items() if _modified(folder / path) > since]
    names = newer or list(files)
    listed = " or ".join(f"files.{name} ({files[name]})" for name in names)
    yield Difference("files", names[0] if len(names) == 1 else "", f"the content of {listed} changed")


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
