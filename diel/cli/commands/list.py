"""`diel list`: the runs of a project."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from diel.cli.options import Output, json_option, runs_option
from diel.errors import UsageError
from diel.journal.snapshot import look_at
from diel.project.runs import all_runs
from diel.states import TaskState
from diel.status.columns import columns, paint, paint_state
from diel.status.run import Status, read_status
from diel.values import clock, format_duration, format_size


@click.command("list")
@runs_option
@json_option
@click.option("--size", "with_size", is_flag=True, help="Add the space that each run takes on disk.")
def command(runs: Path, out: Output, with_size: bool) -> None:
    """`last` means the bottom one."""
    rows = []
    for paths in all_runs(runs):
        size = size_of(paths.root)[0] if with_size else None
        try:
            status = read_status(paths, look_at(paths))
            rows.append((status, size))
            for damaged in status.damaged:
                click.echo(damaged, err=True)
        except UsageError as error:
            click.echo(f"{paths.run_id}: {error}", err=True)
    header = ["run", "state", "done", "failed", "started", "took", *(["size"] if with_size else [])]
    table = [[paint(cell, dim=True) for cell in header], *(_row(*row) for row in rows)]
    none = [f"no runs in {runs}: start one with `diel run FILE`, or give --runs DIR"]
    lines = columns(table, right=(2, 3, 5, 6)) if rows else none
    out.show(lambda: {"runs": [_document(*row) for row in rows]}, lines)


def size_of(root: Path) -> tuple[int, int]:
    """Return bytes on disk and number of files below a directory, without files that vanish meanwhile."""
    size = files = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(folder, name)).st_size
                files += 1
    return size, files


def _row(status: Status, size: int | None) -> list[str]:
    failed = status.count(TaskState.FAILED)
    return [
        status.run,
        paint_state(status.state),
        f"{status.good:,}/{status.total_text}",
        paint(f"{failed:,}", fg="red") if failed else "",
        "" if status.began is None else clock(status.began)[:-3],
        format_duration(status.elapsed),
        *([] if size is None else [format_size(size)]),
    ]


def _document(status: Status, size: int | None) -> dict[str, Any]:
    document = status.document()
    facts = ("run", "workflow", "state", "began", "ended", "elapsed_s")
    own = {key: document[key] for key in facts} | document["tasks"]
    return own if size is None else {**own, "size": size}
