"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from diel.errors import DielError
from diel.values import parse_duration

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

runs_option: Decorator = click.option(
    "--runs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory of the runs; DIEL_RUNS, or `runs` here, where it is not given.",
)

json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")

output_option: Decorator = click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write it to a file."
)


def put(text: str, output: Path | None) -> None:
    """Prints a text, or writes it to the file that was named. Raises DielError where that cannot be."""
    if output is None:
        click.echo(text)
        return
    try:
        output.write_text(f"{text}\n", encoding="utf-8", errors="replace")
    except OSError as error:
        raise DielError(f"cannot write {output}: {error.strerror or error}") from error


class Duration(click.ParamType[float]):
    """An option such as `90s` or `10m`, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, context)


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
