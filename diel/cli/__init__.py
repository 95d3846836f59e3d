"""The command line: `diel COMMAND …`. Each command is one file, imported when it is called."""

from diel.cli.main import main

__all__ = ["main"]
