"""`diel params set`: values of hyperparameters for all later runs of a project."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from diel.cli.commands.params.known import Known, having, known_workflows
from diel.cli.options import json_option, runs_option
from diel.errors import UsageError, did_you_mean
from diel.paths import runs_dir
from diel.registry import Change, append_change, read_current, typed
from diel.spec import Flaws
from diel.table import shown


@click.command("set")
@click.argument("words", nargs=-1, required=True, metavar="NAME=VALUE...")
@click.option("--unset", is_flag=True, help="Take the project's values of these names back.")
@click.option(
    "--workflow",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A workflow to check the values by, besides those of the project's runs.",
)
@runs_option
@json_option
def command(
    words: tuple[str, ...], unset: bool, files: tuple[Path, ...], runs: Path | None, as_json: bool
) -> int:
    """Set values that all later runs of the project begin with, or take them back.

    They beat the defaults of workflows; --params and --set of a run beat them. Each is checked against
    type and bounds in every workflow of the project that has it.
    """
    place = runs_dir(runs)
    before = {name: held.value for name, held in read_current(place)[0].items()}
    if unset:
        change = Change("set", unset=_names(words, before))
    else:
        change = Change("set", _values(words, known_workflows(place, files)))
    made = append_change(place, change)
    if as_json:
        known = {name: before[name] for name in (*made.values, *made.unset) if name in before}
        click.echo(json.dumps({"set": dict(made.values), "unset": list(made.unset), "before": known}))
        return 0
    for name, value in made.values.items():
        before_it = f"was {shown(before[name])}" if name in before else "the project had none"
        click.echo(f"hp.{name} = {shown(value)}  ({before_it})")
    for name in made.unset:
        click.echo(f"hp.{name}: back to the default of each workflow  (was {shown(before[name])})")
    return 0


def _names(words: Sequence[str], held: dict[str, Any]) -> tuple[str, ...]:
    """The names to unset. Raises UsageError where the project has no value of one."""
    names = tuple(dict.fromkeys(word.partition("=")[0].strip().removeprefix("hp.") for word in words))
    for name in names:
        if name not in held:
            hint = did_you_mean(name, held) or f"it has: {', '.join(held) or 'none'}"
            raise UsageError(f"the project has no value of '{name}'\n    {hint}")
    return names


def _values(words: Sequence[str], known: Sequence[Known]) -> dict[str, Any]:
    """The values by name. Raises UsageError with all that is wrong."""
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for word in words:
        left, equals, text = word.partition("=")
        name = left.strip().removeprefix("hp.")
        try:
            if not equals or not name:
                raise UsageError(f"{word}: expected NAME=VALUE; --unset takes a value back")
            values[name] = _value(name, text, having(known, name))
        except UsageError as error:
            wrong.append(str(error))
    if wrong:
        raise UsageError("\n".join(wrong))
    return values


def _value(name: str, text: str, known: Sequence[Known]) -> Any:
    """A value that fits in all workflows that have it. Raises UsageError."""
    first = known[0]
    try:
        value = typed(first.hyperparameters[name], text)
    except Flaws as error:
        raise _refused(name, text, error, first) from None
    for other in known[1:]:
        try:
            other.hyperparameters[name].accept(value)
        except Flaws as error:
            raise _refused(name, text, error, other) from None
    return value


def _refused(name: str, text: str, error: Flaws, known: Known) -> UsageError:
    flaw = error.flaws[0]
    hint = f"\n    {flaw.hint}" if flaw.hint else ""
    return UsageError(f"hp.{name}={text}: {flaw.message}, by workflow '{known.name}' ({known.where}){hint}")
