"""Options that several commands share."""

import json
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import Any, TypedDict

import click

from diel.base import files
from diel.base.errors import DielError, UsageError
from diel.base.paths import runs_dir
from diel.base.values import json_value, parse_duration

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
PATH = click.Path(path_type=Path)


def duration(text: str) -> float:
    """Return the seconds of an option such as `90s` or `10m`."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def stacked(*options: Decorator) -> Decorator:
    """Several options as one, in the order of `--help`."""
    return lambda function: reduce(lambda inner, option: option(inner), reversed(options), function)


runs_option: Decorator = click.option(
    "--runs",
    type=click.Path(path_type=Path, file_okay=False),
    default=runs_dir,
    help="Directory of the runs; if not given, DIEL_RUNS, or `runs` here.",
)


class Output:
    """What a command prints: lines for people, or with `--json` one document for programs."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def show(self, document: Callable[[], Any], lines: Iterable[str], notes: Iterable[object] = ()) -> None:
        """Print the document or the lines, and make nothing of the other; print the notes to stderr."""
        click.echo(json.dumps(json_value(document())) if self.as_json else "\n".join(lines))
        for note in notes:
            click.echo(note, err=True)


json_option: Decorator = click.option(
    "--json",
    "out",
    is_flag=True,
    callback=lambda context, option, as_json: Output(as_json),
    help="Print one JSON document.",
)
_TO_FILE = "Write it to a file."
output_option: Decorator = click.option("-o", "--output", type=PATH, metavar="FILE", help=_TO_FILE)
PAGES = (".html", ".htm")


def page_option(what: str, example: str) -> Decorator:
    """`-o` of something that is printed, or put into a page."""

    def check(context: click.Context, option: click.Parameter, output: Path | None) -> Path | None:
        if output is not None and output.suffix.lower() not in PAGES:
            raise UsageError(f"{output}: a {what} is printed, or a page: -o {example}")
        return output

    return click.option("-o", "--output", type=PATH, metavar="FILE", callback=check, help=_TO_FILE)


settings_options = stacked(
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="hp.NAME=VALUE",
        help="Value of a hyperparameter; beats --params and defaults.",
    ),
    click.option(
        "--params",
        "params_files",
        multiple=True,
        type=PATH,
        metavar="FILE",
        help="YAML or JSON file with values of hyperparameters.",
    ),
)
fail_fast_option = click.option(
    "--fail-fast", is_flag=True, help="Begin nothing more after the first failure; what runs may end."
)

sized_option: Decorator = click.option(
    "--sized-by",
    metavar="RUN",
    help="Ask for memory, walltime and cores as `diel explain RUN STAGE` advises.",
)
start_options = stacked(
    click.option("--from", "begin_at", metavar="STAGE", help="Compute this stage and all after it again."),
    click.option("--no-cache", is_flag=True, help="Use no result of an earlier run."),
    fail_fast_option,
    click.option("-n", "--dry-run", is_flag=True, help="Only show what would run, as `diel plan` does."),
    sized_option,
)


class WorkflowOptions(TypedDict):
    """What `workflow_options` give a command, as `prepare` takes it."""

    file: Path
    settings: tuple[str, ...]
    params_files: tuple[Path, ...]
    site: str | None
    runs: Path


class Start(WorkflowOptions):
    """What `workflow_options` and `start_options` give a command that starts a run."""

    begin_at: str | None
    no_cache: bool
    fail_fast: bool
    dry_run: bool
    sized_by: str | None


def workflow_options(
    site: str = "Where it would run; `local` if neither this nor DIEL_SITE is given.",
) -> Decorator:
    """Return the options of a workflow FILE: its values, where it is to run, and the runs of its project."""
    return stacked(
        click.argument("file", type=PATH),
        settings_options,
        click.option("--site", metavar="NAME", help=site),
        runs_option,
    )


def put_page(page: str, output: Path, about: str) -> None:
    """Write a page, and say what it is about."""
    put(page.removesuffix("\n"), output)
    click.echo(f"{output}: {about}")


def put(text: str | bytes, output: Path | None) -> None:
    """Print a text, or write it (or a picture) to a file, whole or not at all. Raise DielError."""
    if output is None:
        click.echo(text)
        return
    content = text if isinstance(text, bytes) else f"{text}\n".encode("utf-8", "replace")
    try:
        if output.is_symlink() or (output.exists() and not output.is_file()):
            output.write_bytes(content)  # /dev/stdout, a pipe: they are not to be replaced
        else:
            files.put(output, content, output.stat().st_mode & 0o777 if output.exists() else 0o666)
    except OSError as error:
        raise DielError(f"cannot write {output}: {error.strerror or error}") from error
