"""The panel of provenance: who ran what, where and with which versions, and the text as it was."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from diel.page.panel import Cell, Facts, Grid, Log, Part
from diel.page.seen import Seen
from diel.project.run_file import read_kept_workflow
from diel.values import clock

TEXT = 40_000


def parts(seen: Seen) -> Iterator[Part]:
    run_file = seen.run.run_file
    facts = [
        ("workflow", run_file.workflow),
        ("file", run_file.source),
        ("asked for", run_file.command_line),
        ("made", clock(run_file.created)),
        ("by", "" if seen.public else f"{run_file.user} on {run_file.host}"),
        ("in", "" if seen.public else run_file.cwd),
        ("run", "" if seen.public else str(seen.paths.root)),
        ("site", run_file.site),
        ("diel", run_file.diel),
        ("Python", run_file.python),
        ("took results of", ", ".join(seen.status.uses)),
        *((f"environment {name}", text) for name, text in seen.status.environments.items()),
    ]
    yield Facts([(name, text) for name, text in facts if text])
    rows = [_stage(seen, name) for name in seen.run.workflow.stages]
    heads = ("stage", "program", "parts of its keys")
    yield Grid("What each stage is: the digests of all that its tasks' results hang on", heads, rows)
    text = read_kept_workflow(seen.paths)
    more = f", its first {TEXT:,} characters" if len(text) > TEXT else ""
    yield Log(f"The workflow as it was when the run began{more}", text[:TEXT])


def _stage(seen: Seen, name: str) -> list[Cell]:
    stage = seen.run.workflow.stages[name]
    history = seen.run.history.stages.get(name)
    parts = {} if history is None else dict(history.parts)
    command = stage.command if isinstance(stage.command, str) else shlex.join(map(str, stage.command or ()))
    program = stage.module or " ".join(command.split())
    digests = ", ".join(f"{part} {digest[:8]}" for part, digest in parts.items())
    return [name, program if len(program) <= 160 else f"{program[:159]}…", digests]
