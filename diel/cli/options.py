"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

runs_option: Decorator = click.option(
    "--runs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory of the runs; DIEL_RUNS, or `runs` here, where it is not given.",
)

json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def complete_run(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from diel.paths import runs_dir  # only while a shell completes
    from diel.project.runs import all_runs

    names = ["last", *(paths.run_id for paths in all_runs(runs_dir(context.params.get("runs"))))]
    return [name for name in names if name.startswith(incomplete)]


run_argument: Decorator = click.argument("run", default="last", shell_complete=complete_run)


def settings_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--set` and `--params`."""
    function = click.option(
        "--params",
        "params_files",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="YAML or JSON file with values of hyperparameters.",
    )(function)
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="hp.NAME=VALUE",
        help="Value of a hyperparameter; beats --params and defaults.",
    )(function)
