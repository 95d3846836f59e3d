"""`diel completion`: the script that lets a shell complete commands, options, runs and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

INSTRUCTIONS = {
    "bash": 'add to ~/.bashrc:  eval "$(diel completion bash)"',
    "zsh": 'add to ~/.zshrc, after compinit:  eval "$(diel completion zsh)"',
    "fish": "run once:  diel completion fish > ~/.config/fish/completions/diel.fish",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(INSTRUCTIONS)))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """\b
    bash:  eval "$(diel completion bash)"      in ~/.bashrc
    zsh:   eval "$(diel completion zsh)"       in ~/.zshrc, after compinit
    fish:  diel completion fish > ~/.config/fish/completions/diel.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    script = found(context.find_root().command, {}, "diel", "_DIEL_COMPLETE")
    click.echo(f"# {INSTRUCTIONS[shell]}")
    click.echo(script.source())
