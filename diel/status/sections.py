"""What a run has besides stages: an entry for each feature, for status, reports and summaries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from diel.errors import counted
from diel.journal.history import History
from diel.status.axis_lines import ROWS, axis_lines, axis_report
from diel.status.block_lines import WIDE, block_lines
from diel.status.environment import environment_lines
from diel.status.export import export_lines
from diel.status.joined import Left, joined_lines, joined_of
from diel.status.run import Status
from diel.status.service import service_lines
from diel.status.stage import shared_lines
from diel.status.staging import staging_lines
from diel.status.stopping import answers, stopped_lines, stopped_of, stopped_stages
from diel.status.stream import stream_lines
from diel.status.surrogate import stays_lines, stays_of, surrogate_lines, surrogate_report, surrogates_of


class View(NamedTuple):
    """How much of a run to show: columns, few lines (`brief`), or everything."""

    width: int = WIDE
    brief: bool = False
    show_all: bool = False

    @property
    def rows(self) -> int:
        return 1 if self.brief else sys.maxsize if self.show_all else ROWS


class Section(NamedTuple):
    """How a feature is shown. None of it is called for a run that does not use the feature."""

    used: Callable[[Status], object]
    lines: Callable[[Status, View], list[str]]
    """Of `diel status`."""
    report: Callable[[Status], Iterable[str]] = lambda status: ()
    """Of `diel report`, in Markdown."""
    summary: tuple[Callable[[History], bool], Callable[[History], list[str]]] | None = None
    """Of a run's end: whether it uses the feature, and its lines."""


def asked_first(status: Status) -> dict[str, Any]:
    """What was answered instead of computed, by the stage that asks."""
    return {stage.name: stage.surrogate for stage in status.stages if stage.surrogate is not None}


def doubt(history: History) -> str:
    """Of which results audits say that they may be wrong; empty if of none."""
    found = {name: len(stage.suspect()) for name, stage in history.stages.items()}
    said = ", ".join(f"{counted(number, 'answer')} of {name}" for name, number in found.items() if number)
    return f"audits speak against {said}; `diel resume --recompute suspect` simulates them" if said else ""


def _joined(status: Status) -> list[tuple[str, Mapping[int, Left]]]:
    return [(stage.name, stage.joined) for stage in status.stages if stage.joined]


def _stays(status: Status) -> dict[str, Sequence[int]]:
    return {stage.name: stage.stays for stage in status.stages}


def is_doubted(status: Status) -> bool:
    """Whether results are answers that audits speak against."""
    return any(one.audit and one.audit.suspect for one in asked_first(status).values())


def _notice_lines(status: Status) -> list[str]:
    from diel.status.notify import notice_lines  # here: few runs tell anybody

    return notice_lines(status.notices)


def _energy_lines(status: Status, view: View) -> list[str]:
    from diel.status.energy import energy_text  # here: few machines tell

    return [f"energy: {energy_text(status.energy)}"] if status.energy or view.show_all else []


SECTIONS = (
    Section(
        used=lambda status: status.axes,
        lines=lambda status, view: axis_lines(status.axes, view.width, view.rows),
        report=lambda status: axis_report(status.axes),
    ),
    Section(
        used=lambda status: any(stage.shared for stage in status.stages),
        lines=lambda status, view: shared_lines(status.stages),
        report=lambda status: ("", *shared_lines(status.stages)),
    ),
    Section(
        used=lambda status: status.blocks or status.silent or status.trouble,
        lines=lambda status, view: block_lines(status, view.width, brief=view.brief, show_all=view.show_all),
    ),
    Section(
        used=lambda status: status.damaged,
        lines=lambda status, view: list(status.damaged[: view.rows]),
        report=lambda status: ("", *status.damaged),
    ),
    Section(
        used=lambda status: status.environments,
        lines=lambda status, view: [] if view.brief else environment_lines(status.environments),
        report=lambda status: environment_lines(status.environments),
    ),
    Section(
        used=lambda status: any(stage.held for stage in status.stages),
        lines=lambda status, view: [*stopped_lines(stopped_of(status)), *answers(status)],
        report=lambda status: [f"- {line}" for line in stopped_lines(stopped_of(status))],
        summary=(History.is_held, lambda history: stopped_lines(stopped_stages(history))),
    ),
    Section(used=lambda status: status.services, lines=lambda status, view: service_lines(status.services)),
    Section(used=lambda status: status.streams, lines=lambda status, view: stream_lines(status.streams)),
    Section(
        used=asked_first,
        lines=lambda status, view: [*surrogate_lines(asked_first(status)), *stays_lines(_stays(status))],
        report=lambda status: surrogate_report(asked_first(status), _stays(status)),
        summary=(
            History.asks_first,
            lambda history: [*surrogate_lines(surrogates_of(history)), *stays_lines(stays_of(history))],
        ),
    ),
    Section(
        used=_joined,
        lines=lambda status, view: joined_lines(_joined(status), view.rows),
        report=lambda status: [f"- {line}" for line in joined_lines(_joined(status))],
        summary=(History.is_joined, lambda history: joined_lines(joined_of(history))),
    ),
    Section(
        used=lambda status: status.staging,
        lines=lambda status, view: staging_lines(status.staging, show_all=view.show_all),
    ),
    Section(
        used=lambda status: status.exports,
        lines=lambda status, view: export_lines(status.exports),
        report=lambda status: ("", *export_lines(status.exports)),
        summary=(History.has_exports, lambda history: export_lines(history.exports)),
    ),
    Section(used=lambda status: True, lines=_energy_lines),
    Section(
        used=lambda status: status.notices,
        lines=lambda status, view: _notice_lines(status),
        report=lambda status: ("", *_notice_lines(status)),
    ),
)
