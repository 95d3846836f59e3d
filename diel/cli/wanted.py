"""What a workflow is to be run or looked at with: options of `validate`, `plan`, `run` and `submit`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from diel.cli.options import Decorator, runs_option, settings_options
from diel.paths import runs_dir
from diel.plan import Plan, prepare

SITE = "Where it would run; `local` where neither this nor DIEL_SITE is given."
"""Of `--site`, for commands that run nothing."""


@dataclass(frozen=True)
class Wanted:
    """A workflow file, what settles its values, and where it is to run."""

    file: Path
    settings: tuple[str, ...]
    params_files: tuple[Path, ...]
    site: str | None
    runs: Path
    """The directory of the runs, whose project has values too."""

    def plan(self) -> Plan:
        """The file, checked and planned. Raises SpecError and UsageError."""
        return prepare(self.file, self.settings, self.params_files, self.site, self.runs)


def workflow_options(site_help: str) -> Decorator:
    """FILE, what settles its values, `--site` and `--runs`: the command gets them as one `Wanted`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def command(
            file: Path,
            settings: tuple[str, ...],
            params_files: tuple[Path, ...],
            site: str | None,
            runs: Path | None,
            **others: Any,
        ) -> Any:
            return function(Wanted(file, settings, params_files, site, runs_dir(runs)), **others)

        argument = click.argument("file", type=click.Path(path_type=Path))
        site_option = click.option("--site", metavar="NAME", help=site_help)
        return argument(settings_options(site_option(runs_option(command))))

    return decorate


def anew_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--from` and `--no-cache`: what is computed although there are results of it."""
    function = click.option("--no-cache", is_flag=True, help="Use no result of an earlier run.")(function)
    return click.option(
        "--from", "begin_at", metavar="STAGE", help="Compute this stage and all after it anew."
    )(function)
