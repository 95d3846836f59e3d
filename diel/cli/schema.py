"""`diel schema`: the JSON Schema of workflow files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from diel.errors import DielError
from diel.schema import schema


@click.command("schema")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write it to a file.")
def command(output: Path | None) -> int:
    """Print the JSON Schema of workflow files, for editors.

    An editor that speaks it completes keys and marks mistakes while you write. With the YAML
    language server (VS Code's YAML extension, Neovim, Emacs, Helix):

    \b
        diel schema -o diel.schema.json

    and as the first line of a workflow file:

    \b
        # yaml-language-server: $schema=diel.schema.json

    `diel validate` checks more than a schema can say.
    """
    text = json.dumps(schema(), indent=2, ensure_ascii=False)
    if output is None:
        click.echo(text)
        return 0
    try:
        output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise DielError(f"cannot write {output}: {error.strerror or error}") from error
    click.echo(f"{output}: begin workflow files with `# yaml-language-server: $schema={output}`", err=True)
    return 0
