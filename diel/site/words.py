"""Texts of a site file that end up in job scripts: what may stand in each, and the places to be filled in."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from diel.errors import did_you_mean
from diel.extensions import SCHEDULERS, names_in
from diel.spec.model import found, refuse

LOCAL = "local"
"""What a site without a scheduler has in its place."""
_LOCAL_TOO = ("none", "laptop", "localhost", "workstation")
LAUNCHER_PLACES = ("ranks", "nodes", "ranks_per_node", "cores_per_rank", "hosts")
BLOCK_PLACES = ("nodes",)
_NAME = re.compile(r"[\w.@:+/=,%][\w.@:+/=,%-]*")
_BREAK = re.compile("[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]")
"""What ends a line for some reader of it, or is no text at all."""
_SHELL_VARIABLE = re.compile(r"\$\{[^{}]*\}")
_BRACES = re.compile(r"\{([^{}]*)\}")
_PLACE = re.compile(r"[\w\s.-]*")
"""What stands in braces of a place; with others (`{print $1}`, `{a,b}`) it is a shell's or a program's."""


def job_word(text: str) -> str:
    """An account or a queue: one word, which neither a shell nor a reader of directives takes apart.

    Raises Flaws.
    """
    if not _NAME.fullmatch(text):
        hint = "letters, digits and _ . @ : + / = , % - may be in it, the last not at its start"
        raise refuse(f"expected one word as the scheduler has it, found {found(text)}", hint)
    return text


def _scheduler(text: str) -> str:
    if text == LOCAL or text in (names := names_in(SCHEDULERS)):
        return text
    from diel.scheduler.scheduler import usable_schedulers  # here: where the word is wrong alone

    word = text.lower()
    others = (name for name, scheduler in usable_schedulers() if word in scheduler.also)
    meant = LOCAL if word in _LOCAL_TOO else next(others, None)
    hint = f"did you mean '{meant}'?" if meant else did_you_mean(text, (*names, LOCAL))
    raise refuse(f"expected one of {', '.join((LOCAL, *names))}; found {found(text)}", hint)


def _line(text: str) -> str:
    if _BREAK.search(text):
        hint = "write each line as an item of its own"
        raise refuse(f"expected one line without control characters, found {found(text)}", hint)
    return text


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise refuse("a NUL character can be no part of a word")
    return text


def _launcher(text: str) -> str:
    return _checked(_no_nul(text), LAUNCHER_PLACES)


def _spread(text: str) -> str:
    return _checked(_no_nul(text), BLOCK_PLACES)


def _option(text: str) -> str:
    return _checked(_line(text), BLOCK_PLACES)


def _checked(text: str, places: tuple[str, ...]) -> str:
    """Refuses places that nothing is put into, and lone braces: they would reach the scheduler raw."""
    listed = " ".join(f"{{{place}}}" for place in places)
    plain = _SHELL_VARIABLE.sub("", text)
    for inner in _BRACES.findall(plain):
        if inner not in places and _PLACE.fullmatch(inner):
            near = did_you_mean(f"{{{inner.strip()}}}", [f"{{{place}}}" for place in places])
            raise refuse(f"nothing is put in for {{{inner}}}", near or f"put in are: {listed}")
    left = plain
    while (less := _BRACES.sub("", left)) != left:
        left = less
    if "{" in left or "}" in left:
        raise refuse(f"a lone brace in {found(text)}", f"put in are: {listed}")
    return text


SchedulerName = Annotated[str, AfterValidator(_scheduler)]
"""`local`, or the name of a scheduler that is installed."""

JobWord = Annotated[str, AfterValidator(job_word)]
"""An account or a queue."""

SetupLine = Annotated[str, AfterValidator(_line)]
"""One line of shell text."""

JobOption = Annotated[str, AfterValidator(_option)]
"""One option of a scheduler, as its directive lines have it; {nodes} is put in."""

LauncherWord = Annotated[str, AfterValidator(_launcher)]
"""A word of an MPI launcher."""

SpreadWord = Annotated[str, AfterValidator(_spread)]
"""A word of what starts a program once on each node of a block."""
