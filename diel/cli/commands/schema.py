"""`diel schema`: the JSON Schema of workflow files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from diel.cli.options import output_option, put
from diel.schema import schema


@click.command("schema")
@output_option
def command(output: Path | None) -> int:
    """With it, an editor completes keys and marks mistakes while you write. With the YAML
    language server (VS Code's YAML extension, Neovim, Emacs, Helix):

    \b
        diel schema -o diel.schema.json

    and as the first line of a workflow file:

    \b
        # yaml-language-server: $schema=diel.schema.json

    `diel validate` checks more than a schema can say.
    """
    put(json.dumps(schema(), indent=2, ensure_ascii=False), output)
    if output is not None:
        line = f"# yaml-language-server: $schema={output}"
        click.echo(f"{output}: begin workflow files with `{line}`", err=True)
    return 0
