"""What all tasks of a stage share, compared with an earlier run: module, command, params, files, env."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from diel.controller.key import APART
from diel.explain.change import Change, mapping_changes, plain
from diel.explain.view import View
from diel.table import shown

WIDE = 120
_FAMILY = ("module", "command", "params", "files", "env")


def family_changes(view: View, old: View, stage: str) -> Iterator[Change]:
    """The parts of a stage's key that are others than in an earlier run."""
    parts, old_parts = (v.run.history.stage(stage).parts for v in (view, old))
    for part in _FAMILY:
        if parts.get(part) != old_parts.get(part):
            yield from _FINDERS[part](view, old, stage)


def _module_change(view: View, old: View, stage: str) -> Iterator[Change]:
    new, before = (v.run.workflow.stages[stage].module for v in (view, old))
    if new != before:
        text = f"module: {before or 'a command'} → {new or 'a command'}"
        yield Change("module", "module", text, before, new)
        return
    module = view.module(stage)
    where = f" ({module.path})" if module is not None else ""
    yield Change("module", str(new), f"the source of module '{new}' changed{where}")


def _command_change(view: View, old: View, stage: str) -> Iterator[Change]:
    new, before = (v.run.workflow.stages[stage] for v in (view, old))
    if new.command != before.command:
        lines, old_lines = (_command_lines(spec.command) for spec in (new, before))
        text = f"the command changed: {_difference(old_lines, lines)}"
        yield Change("command", "command", text, "\n".join(old_lines), "\n".join(lines))
    if new.interpreter != before.interpreter and new.interpreter and before.interpreter:
        words, old_words = (shlex.join(spec.interpreter) for spec in (new, before))
        yield Change("command", "shell", f"the shell: {old_words} → {words}", old_words, words)
    outputs, old_outputs = (
        {label: plain(output.model_dump(exclude=APART)) for label, output in spec.outputs.items()}
        for spec in (new, before)
    )
    yield from mapping_changes("command", "outputs.", old_outputs, outputs)


def _command_lines(command: Any) -> list[str]:
    """A command as lines: those of its text, or one a word."""
    if isinstance(command, tuple):
        return [word if isinstance(word, str) else json.dumps(plain(word)) for word in command]
    return str(command).splitlines() if command is not None else ["(a module)"]


def _difference(old: list[str], new: list[str]) -> str:
    """The first lines that are others, and how many more there are."""
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    blocks = [(old[i:j], new[k:m]) for word, i, j, k, m in matcher.get_opcodes() if word != "equal"]
    before, after = (" ⏎ ".join(lines) for lines in blocks[0]) if blocks else ("", "")
    text = f"{shown(before, WIDE) or 'nothing'} → {shown(after, WIDE) or 'nothing'}"
    return f"{text}, and in {len(blocks) - 1} more places" if len(blocks) > 1 else text


def _params_change(view: View, old: View, stage: str) -> Iterator[Change]:
    new, before = (plain(v.run.workflow.stages[stage].params) for v in (view, old))
    yield from mapping_changes("params", "params.", before, new)


def _files_change(view: View, old: View, stage: str) -> Iterator[Change]:
    new, before = (dict(v.run.workflow.stages[stage].files) for v in (view, old))
    told = list(mapping_changes("files", "files.", before, new))
    if told:
        yield from told
        return
    folder = view.run.run_file.folder
    yield from file_changes({name: path for name, path in new.items() if "${{" not in path}, old, folder)


def file_changes(files: Mapping[str, str], old: View, folder: Path | None = None) -> Iterator[Change]:
    """Files whose content is another than an earlier run read: the newer ones, or all that it may be.

    `folder` is where they are, for paths that are not absolute.
    """
    if not files:
        return
    since = old.run.run_file.created
    newer = [name for name, path in files.items() if _modified((folder or Path()) / path) > since]
    names = newer or list(files)
    listed = " or ".join(f"files.{name} ({files[name]})" for name in names)
    yield Change("files", names[0] if len(names) == 1 else "", f"the content of {listed} changed")


def _modified(path: Any) -> float:
    try:
        return float(path.stat().st_mtime)
    except OSError:
        return 0.0


def _env_change(view: View, old: View, stage: str) -> Iterator[Change]:
    new, before = (dict(v.run.workflow.stages[stage].env) for v in (view, old))
    yield from mapping_changes("env", "env.", before, new)


_FINDERS = {
    "module": _module_change,
    "command": _command_change,
    "params": _params_change,
    "files": _files_change,
    "env": _env_change,
}
