"""The `diel` command: finds the command's file, and turns errors into messages and exit codes."""

import errno
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import cleandoc
from typing import Any, NoReturn

import click

from diel import __version__
from diel.base.carried import leave_here
from diel.base.errors import MISTAKE, DielError, UsageError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_NAMES = (errno.ENAMETOOLONG, errno.ELOOP)
_ROOM = "make room there; `diel resume` then continues, and nothing committed is lost"
COMMANDS = {
    "init": "Make a starter project that runs as it is.",
    "validate": "Check a workflow file, and report all that is wrong.",
    "plan": "Show what would run where, and what it could cost.",
    "run": "Run a workflow here, and watch it.",
    "submit": "Submit a workflow, and log off.",
    "status": "Show the state of a run.",
    "view": "Look at a run while it goes on.",
    "logs": "Show what a task printed.",
    "path": "Print the directory of a task, or the path of an output.",
    "explain": "Say why a task waits, failed, was skipped or ran again.",
    "results": "Print the outputs of stages as a table.",
    "graph": "Draw the stage graph of a workflow or a run.",
    "params": "Show, set and compare the hyperparameters of a project.",
    "compare": "Say what differs between two runs, and whether it is more than scatter.",
    "trend": "Follow the times and results of a workflow's runs.",
    "list": "List the runs, the oldest first.",
    "cancel": "Stop a run, or some of its stages and tasks.",
    "resume": "Continue a run that was interrupted, cancelled or failed.",
    "report": "Write a report of a run: a page with charts, or Markdown.",
    "export": "Write a run for MLflow, Optuna, TensorBoard, or as an RO-Crate.",
    "shard": "Inside a task: print this rank's or task's part of an input.",
    "stream": "Inside a task: put into streams, get from them, share tuples.",
    "client": "Print what compiles a program with diel's library for C and Fortran.",
    "verify": "Compare again what a run made with what its journal says of it.",
    "clean": "Remove runs, after saying what that frees.",
    "doctor": "Check that this machine or a site can run workflows.",
    "modules": "List the modules that workflows can use.",
    "schema": "Print the JSON Schema of workflow files, for editors.",
    "completion": "Print the completion script for bash, zsh or fish.",
}
"""Each command with the first line of its help; its docstring is the rest."""

_SECTIONS = {
    "Begin": ("init", "validate", "plan", "graph", "modules", "doctor", "schema", "completion"),
    "Run": ("run", "submit", "resume", "cancel", "clean"),
    "See": ("status", "view", "explain", "logs", "report", "list", "compare", "trend", "verify"),
    "Use what a run found": ("results", "export", "path", "params"),
}
"""The sections of `--help`; commands that none names are the last one."""
_WORDS = """RUN is the name of a run (`melt-3`) or of a workflow (`melt`: its newest run), or `last`;
left out, it means `last`. TASK is `simulate/17`, or a stage and a point: `simulate depth=2.5 seed=1`.
To begin: `diel init study`."""

_ALIASES = {"ls": "list"}
_MEANT = {
    **dict.fromkeys(("check", "lint"), "`diel validate FILE` checks a workflow"),
    **dict.fromkeys(("start", "exec"), "`diel run FILE` runs a workflow"),
    **dict.fromkeys(("stop", "kill", "abort"), "`diel cancel [RUN]` stops a run"),
    **dict.fromkeys(("rm", "remove", "delete"), "`diel clean RUN` removes a run"),
    "diff": "`diel compare RUN RUN` compares two runs, `diel params diff` their hyperparameters",
    **dict.fromkeys(("continue", "restart", "retry"), "`diel resume [RUN]` continues a run"),
    **dict.fromkeys(("ps", "show", "info"), "`diel status [RUN]` shows a run, `diel list` all"),
    **dict.fromkeys(("watch", "top", "ui", "dashboard"), "`diel view [RUN]` shows a run as it goes on"),
    **dict.fromkeys(("dag", "draw"), "`diel graph FILE` draws a workflow"),
    "dryrun": "`diel plan FILE` shows what would run",
    "help": "`diel --help` lists the commands, `diel COMMAND --help` explains one",
    "version": "`diel --version` says which this is",
}
"""What the words of other tools are here."""

_TOGETHER = {
    **dict.fromkeys(("init", "schema", "completion"), "setup"),
    **dict.fromkeys(("report", "export", "verify"), "results"),
    "trend": "compare",
    "list": "status",
    "path": "logs",
    "submit": "run",
    "validate": "plan",
    "view": "status",
    "client": "shard",
}
"""The file of each command that has none of its own name."""


class Commands(click.Group):
    """A group that imports a command's file only when it is asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in COMMANDS and name not in self.commands:
            gc.disable()
            file = vars(import_module(f"diel.cli.commands.{_TOGETHER.get(name, name)}")).values()
            command: click.Command = next(entry for entry in file if getattr(entry, "name", "") == name)
            gc.freeze()  # what was loaded stays: looking for garbage in it took a tenth of a short command
            gc.enable()
            command.help = f"{COMMANDS[name]}\n\n{cleandoc(command.help or '')}"
            self.add_command(command)
        return super().get_command(context, name)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        named = {name for names in _SECTIONS.values() for name in names}
        sections = {**_SECTIONS, "More": tuple(name for name in COMMANDS if name not in named)}
        for section, names in sections.items():
            if there := [(name.ljust(10), COMMANDS[name]) for name in names if name in COMMANDS]:
                with formatter.section(section):
                    formatter.write_dl(there)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in _ALIASES:
            args = [_ALIASES[args[0]], *args[1:]]
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from diel.base.errors import did_you_mean  # only if a word is wrong

            near = _MEANT.get(args[0]) or did_you_mean(args[0], COMMANDS)
            raise click.UsageError(f"no command '{args[0]}'; {near or '`diel --help` lists the commands'}")
        return super().resolve_command(context, args)


@click.group(cls=Commands, epilog=_WORDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="diel")
@click.option("--debug", is_flag=True, envvar="DIEL_DEBUG", help="Show a traceback with an error.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """Workflows for HPC and AI: one YAML file of simulations, trainings and inferences."""
    context.obj = {"debug": debug}
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UsageError(
            "the current directory is no longer there (it was removed or replaced): cd elsewhere, "
            "and give --runs DIR if the runs are not in `runs` there"
        ) from None


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and exit: 0 good, 1 failed, 2 bad usage or workflow, 130 interrupted."""
    _open_standard_files()
    leave_here()
    # What a large file is read into is no garbage: looking for it took half of the time.
    gc.set_threshold(50_000)
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words or bool(os.environ.get("DIEL_DEBUG"))
    words = [word for word in words if word != "--debug"]
    code = _run(words, debug)
    gc.freeze()  # all of it ends with the process: freeing it took a tenth of a short command
    sys.exit(code)


def _open_standard_files() -> None:
    """Open standard files that the caller closed: other files would take their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def _run(words: list[str], debug: bool) -> int:
    try:
        result: Any = cli.main(words, prog_name="diel", standalone_mode=False)
    except DielError as error:
        if debug:
            raise
        word = "error:" if os.environ.get("NO_COLOR") else click.style("error:", fg="red", bold=True)
        click.echo(f"{word} {error}", err=True)
        return error.exit_code
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except Exception as error:
        if debug:
            raise
        text, code = _unforeseen(error, words)
        click.echo(text, err=True)
        return code
    return result if isinstance(result, int) else 0


def _unforeseen(error: Exception, words: list[str]) -> tuple[str, int]:
    """Return the message for an error that is not diel's own, and the exit code."""
    if isinstance(error, OSError) and error.errno in _FULL:
        where = f" ({error.filename})" if error.filename else ""
        return f"error: {error.strerror}{where}\n    {_ROOM}", 1
    if isinstance(error, OSError) and error.errno in _NAMES:
        return f"error: {error.strerror}: {str(error.filename)[:80]}\n    check the name", 2
    if isinstance(error, OSError) and error.filename:
        names = " -> ".join(str(name) for name in (error.filename, error.filename2) if name)
        return f"error: {error.strerror}: {names}\n    --debug shows where that happened", 1
    import platform  # here: only needed for an unforeseen error
    import shlex

    return (
        f"{MISTAKE}: {type(error).__name__}: {error}\n"
        f"    this is a mistake in diel: report it with what `diel --debug {shlex.join(words)}` prints\n"
        f"    (diel {__version__}, Python {platform.python_version()})"
    ), 1
