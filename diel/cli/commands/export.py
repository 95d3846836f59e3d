"""`diel export`: a run in the formats of other tools."""

from __future__ import annotations

import os
from pathlib import Path

import click

from diel.cli.options import runs_option
from diel.cli.target import complete_run
from diel.errors import DielError, UsageError
from diel.files import reason
from diel.project.runs import find_run
from diel.results import read
from diel.takeout import TOOLS, take_out


@click.command("export")
@click.argument("words", nargs=-1, metavar="[RUN] DIR", shell_complete=complete_run)
@click.option("--to", "tool", type=click.Choice([*TOOLS]), required=True, help="The tool that is to read it.")
@runs_option
def command(words: tuple[str, ...], tool: str, runs: Path) -> int:
    """By the tools' own libraries, from the files of the run alone: while it runs, or after any kill.

    \b
        diel export last --to optuna shared            shared/optuna.db
        diel export last --to mlflow shared            shared/mlflow.db, mlflow-artifacts
        diel export last --to tensorboard shared       shared/tensorboard/STAGE/INDEX
        diel export last --to rocrate crate            crate/ro-crate-metadata.json, and files
        diel export last --to wfformat shared          shared/wfformat.json

    DIR is made, or what it lacks is put into it. Nothing that is there is changed, and nothing half-made
    is left there.
    """
    if not 1 <= len(words) <= 2:
        raise UsageError(f"expected a run and a directory to write to: diel export last --to {tool} DIR")
    folder = Path(words[-1])
    paths = find_run(runs, words[0] if len(words) == 2 else "last")
    try:
        said, flaws = read(paths, lambda run: take_out(run, tool, folder))
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(
            f"{error.filename} is in the way: name another directory; nothing was written"
        ) from error
    except OSError as error:
        if error.filename != os.path.abspath(folder):
            raise
        why = f"cannot make or fill the directory {folder}: {reason(error)}"
        raise DielError(f"{why}; name another directory; nothing was written") from error
    click.echo(f"{folder / TOOLS[tool].file}: {paths.run_id}")
    for line in (*said[:-1], *flaws, said[-1]):
        click.echo(f"  {line}")
    return 0
