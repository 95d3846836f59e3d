"""`diel init`: makes a starter project that runs as it is."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import click

from diel.errors import UsageError

STARTER = Path(__file__).parents[2] / "starter"
"""The project to copy: a workflow, a module, a page that says what to do."""


@click.command("init")
@click.argument("directory", default=".", type=click.Path(path_type=Path, file_okay=False), metavar="[DIR]")
def command(directory: Path) -> None:
    """Makes it in DIR, or here: a small sweep, a Python module of your own, a fit. No existing file is
    overwritten.
    """
    files = sorted(
        path.relative_to(STARTER)
        for path in STARTER.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    there = [file for file in files if os.path.lexists(directory / file)]
    if there:
        raise UsageError(
            f"{directory / there[0]} already exists, and `diel init` overwrites nothing; name a new directory"
        )
    for file in files:
        target = directory / file
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(STARTER / file, target)
        except OSError as error:
            raise UsageError(f"cannot write {target}: {error.strerror}") from error
        click.echo(f"  {target}")
    go_there = "" if directory.resolve() == Path.cwd() else f"cd {shlex.quote(str(directory))} && "
    click.echo(f"\nNow: {go_there}diel run workflow.yaml")
