"""The command line: `diel COMMAND …`. Each command is one file, imported when it is called."""

import gc

gc.disable()  # nothing is garbage while the command's first files are loaded

from diel.cli.main import main  # noqa: E402

gc.enable()

__all__ = ["main"]
