"""Which schedulers answer on this machine, and what they call themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass

from diel.scheduler import pbs
from diel.scheduler.command import Answer, ask
from diel.scheduler.scheduler import SchedulerBusy

TIMEOUT = 10.0
"""Seconds that each question may take."""


@dataclass(frozen=True)
class Dialect:
    """A scheduler whose commands answer here."""

    name: str
    """As a site names it: slurm, pbs, torque."""
    version: str
    """Its own words, or what was found out about it."""
    wrapper: bool = False
    """Whether these are another scheduler's commands in this one's style, as Slurm's own qsub is."""


def find_dialects() -> list[Dialect]:
    """The schedulers that answer here, the one to prefer first; none where none does.

    Having the commands is not enough: the server behind them must answer. No longer than a minute,
    where all servers are down; at once where there are no commands.
    """
    return [found for look in (_slurm, _pbs, _torque) if (found := look()) is not None]


def silence(name: str) -> str:
    """What a scheduler's commands say while it does not answer, in their own words."""
    question = {"slurm": ("scontrol", "ping"), "pbs": (pbs.program("qstat"), "-B"), "torque": ("qstat", "-Q")}
    try:
        answer = ask(question[name], timeout=TIMEOUT)
    except SchedulerBusy as error:
        return str(error)
    return f"`{' '.join(question[name])}` says: {answer.words}"


def _slurm() -> Dialect | None:
    version, state = _answer("sinfo", "--version"), _answer("scontrol", "ping")
    if version is None or state is None or not re.search(r"\bis UP|are (UP|\w+/UP)", state.out):
        return None
    return Dialect("slurm", version.out.strip())


def _pbs() -> Dialect | None:
    qstat = pbs.program("qstat")
    version = _answer(qstat, "--version")
    if version is None or not (words := re.search(r"pbs_version\s*=\s*(\S+)", version.out + version.err)):
        return None
    return Dialect("pbs", f"pbs_version = {words[1]}") if _answer(qstat, "-B") is not None else None


def _torque() -> Dialect | None:
    """The first qstat on PATH, where it is not PBS's; Slurm's does not know `--version`."""
    told = _ask("qstat", "--version")
    if told is None or "pbs_version" in told.out + told.err or _answer("qstat", "-Q") is None:
        return None
    words = re.search(r"^\s*version:\s*(.+)$", told.out + "\n" + told.err, re.IGNORECASE | re.MULTILINE)
    if words:
        return Dialect("torque", words[1].strip())
    return Dialect("torque", "(commands in its style)", wrapper=True)


def _ask(*words: str) -> Answer | None:
    try:
        return ask(words, timeout=TIMEOUT)
    except SchedulerBusy:
        return None


def _answer(*words: str) -> Answer | None:
    """What a command says, if it succeeds."""
    answer = _ask(*words)
    return answer if answer is not None and answer.code == 0 else None
