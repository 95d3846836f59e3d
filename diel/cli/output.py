"""`--output`: a text that goes to a file in place of stdout."""

from __future__ import annotations

from pathlib import Path

import click

from diel.cli.options import Decorator
from diel.errors import DielError

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
