"""`diel params`: shows, sets, compares and promotes the hyperparameters of a project."""

import click

from diel.cli.commands.params.change import promote, set_
from diel.cli.commands.params.show import diff, history, show


class Params(click.Group):
    """A group that reads `diel params WORKFLOW` as `diel params show WORKFLOW`."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in context.help_option_names):
            args = ["show", *args]
        return super().parse_args(context, args)


@click.group("params", cls=Params, commands=[show, set_, history, diff, promote])
def command() -> None:
    """Treat all runs of one directory as a project. `diel params FILE` and `diel params RUN` are short for
    `diel params show`.
    """
