"""The panels of a page, in their order, those of failures, hyperparameters and provenance among them."""

from __future__ import annotations

import getpass
import re
import shlex
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from diel.errors import DielError
from diel.explain.run import failures_of, skips_of
from diel.form import NOT_AS_IT_SHOULD_BE
from diel.journal.segment import segments
from diel.page import cores, graph, head, timeline
from diel.page.outcome import artifact, result, search, service
from diel.page.panel import Cell, Entry, Facts, Grid, Log, Panel, Part, Picture, Sketch, Text
from diel.page.plot import cell
from diel.page.seen import Seen
from diel.project.lease import read_lease
from diel.project.run_file import read_kept_workflow
from diel.registry import kept_values
from diel.spec import Hyperparameter
from diel.status.stage import named_task
from diel.table import shown
from diel.values import clock

_TEXT = 40_000


def provenance(seen: Seen) -> Iterator[Part]:
    run_file = seen.run.run_file
    facts = [
        ("workflow", run_file.workflow),
        ("file", run_file.source),
        ("asked for", run_file.command_line),
        ("made", clock(run_file.created)),
        ("by", "" if seen.public else f"{run_file.user} on {run_file.host}"),
        ("in", "" if seen.public else run_file.cwd),
        ("run", "" if seen.public else str(seen.paths.root)),
        ("site", run_file.site),
        ("diel", run_file.diel),
        ("Python", run_file.python),
        ("took results of", ", ".join(seen.status.uses)),
        *((f"environment {name}", text) for name, text in seen.status.environments.items()),
    ]
    yield Facts([(name, text) for name, text in facts if text])
    rows = [_version(seen, name) for name in seen.run.workflow.stages]
    heads = ("stage", "program", "parts of its keys")
    yield Grid("What each stage is: the digests of all that its tasks' results hang on", heads, rows)
    text = read_kept_workflow(seen.paths)
    more = f", its first {_TEXT:,} characters" if len(text) > _TEXT else ""
    yield Log(f"The workflow as it was when the run began{more}", text[:_TEXT])


def _version(seen: Seen, name: str) -> list[Cell]:
    stage = seen.run.workflow.stages[name]
    history = seen.run.history.stages.get(name)
    provenance = {} if history is None else dict(history.parts)
    command = stage.command if isinstance(stage.command, str) else shlex.join(map(str, stage.command or ()))
    program = stage.module or " ".join(command.split())
    digests = ", ".join(f"{part} {digest[:8]}" for part, digest in provenance.items())
    return [name, program if len(program) <= 160 else f"{program[:159]}…", digests]


def hyperparameters(seen: Seen) -> Iterator[Part]:
    workflow, values = seen.run.workflow, kept_values(seen.run.run_file).values
    rows: list[list[Cell]] = []
    for name, given in workflow.hyperparameters.items():
        held = values.get(name)
        searched = [label for label, axis in workflow.axes.items() if name in axis.sets]
        source = f"search: {', '.join(searched)}" if searched else ""
        if held is not None and not searched:
            source = ": ".join(filter(None, (held.origin, held.source)))
        value = None if held is None or searched else cell(held.value)
        rows.append([f"hp.{name}", value, source, _allowed(given), cell(given.default), given.description])
    if rows:
        heads = ("name", "value", "where it came from", "allowed", "default", "description")
        yield Grid("Hyperparameters", heads, rows)


def _allowed(given: Hyperparameter) -> str:
    if given.choices is not None:
        return " | ".join(map(shown, given.choices))
    bounds = [given.low, given.high]
    if bounds == [None, None]:
        return given.type
    low, high = ("…" if end is None else shown(end) for end in bounds)
    return f"{given.type}, {low} to {high}{', log' if given.log else ''}"


GROUPS = 40
SHOWN = 8
"""The most groups whose output is shown."""
END = 4000
"""Characters of an end that are shown: the last ones."""

_GIVEN_UP = ("upstream", "void", "hold", "max_failures", "fail_fast", "imports", "changed")
"""Reasons for which tasks do not run that no workflow asks for."""


def failures(seen: Seen) -> Iterator[Part]:
    run, status = seen.run, seen.status
    if status.trouble:
        yield Text(f"Trouble: {status.trouble}", "bad")
    readable = False
    with suppress(DielError):
        readable = bool(run.workflow.stages)
    if not readable and status.failures:  # nobody knows what tasks that failed have in common
        rows: list[list[Cell]] = [
            [named_task(one), one["class"], one["message"][:300]] for one in status.failures[:GROUPS]
        ]
        more = max(0, len(status.failures) - GROUPS)
        yield Grid("Failed tasks, as the journal has them", ("task", "class", "message"), rows, more)
    failed = [one.document for name in run.graph.order for one in failures_of(run, name)]
    if failed:
        heads = ("stage", "tasks", "class", "message", "tasks that failed so", "shared by them")
        groups = [_failure_row(one) for one in failed[:GROUPS]]
        yield Grid("Failed tasks, those alike together", heads, groups, max(0, len(failed) - GROUPS))
        for one in failed[:SHOWN]:
            if one["stderr_tail"].strip():
                caption = f"{run.named(one['first'])}, the end of its stderr"
                yield Log(caption, one["stderr_tail"].rstrip()[-END:])
            yield Text(f"Next: {one['next']}", "note")
    skips = ((name, one) for name in run.graph.order for one in skips_of(run, name))
    given_up = [(name, one.lines[0]) for name, one in skips if one.document["reason"] in _GIVEN_UP]
    if given_up:
        why = [[name, line.removeprefix(f"{name}: ")] for name, line in given_up[:GROUPS]]
        yield Grid("What did not run", ("stage", "why"), why)


def _failure_row(one: dict[str, Any]) -> list[Cell]:
    cause = "" if one["headline"] in one["message"] else one["headline"]
    message = ": ".join(filter(None, (one["message"], cause)))
    tolerated = f", tolerated by {one['tolerated']}" if one["tolerated"] else ""
    more = f" and {one['count'] - len(one['tasks']):,} more" if one["count"] > len(one["tasks"]) else ""
    named = f"{', '.join(one['tasks'])}{more}"
    return [one["stage"], one["count"], f"{one['class']}{tolerated}", message[:300], named, one["shared"]]


ENTRIES = (
    Entry("run", "The run", head.parts),
    Entry("stages", "Stages", head.stages),
    Entry("graph", "Graph", graph.parts),
    Entry("timeline", "Timeline", timeline.parts),
    Entry("cores", "Cores", cores.parts),
    Entry("failures", "Failures", failures),
    Entry("searches", "Searches", search.parts),
    Entry("loops", "Loops", search.loops),
    Entry("surrogates", "Surrogates", service.surrogates),
    Entry("streams", "Streams", service.streams),
    Entry("services", "Services", service.parts),
    Entry("results", "Results", result.parts),
    Entry("reported", "Reported on the way", search.reported),
    Entry("artifacts", "Artifacts", artifact.parts),
    Entry("hyperparameters", "Hyperparameters", hyperparameters),
    Entry("provenance", "Provenance", provenance),
)


def panels_of(seen: Seen) -> list[Panel]:
    """The panels for which a run has something; of all that one fault hides, the first says so."""
    panels = [panel for entry in ENTRIES if (panel := panel_of(entry, seen)) is not None]
    told: dict[str, list[Panel]] = {}
    for panel in panels:
        match panel.parts:
            case [Text(text, "bad")]:
                told.setdefault(text, []).append(panel)
    for first, *others in told.values():
        if others:
            rest = f"Nor, for the same reason: {', '.join(one.title for one in others)}."
            panels[panels.index(first)] = first._replace(parts=[*first.parts, Text(rest, "bad")])
            panels = [panel for panel in panels if panel not in others]
    return panels


def panel_of(entry: Entry, seen: Seen) -> Panel | None:
    """A panel; one that cannot be read says so, and there is none if a run has nothing for it."""
    parts: list[Part] = []
    try:
        _read(entry, seen, parts)
    except (DielError, OSError) as error:
        parts.append(Text(f"This cannot be shown: {error}", "bad"))
    except NOT_AS_IT_SHOULD_BE as error:  # what another program, or half a write, left in the run's files
        wrong = f"{type(error).__name__}: {error}"
        parts.append(Text(f"This cannot be shown, as its files are not as diel writes them: {wrong}", "bad"))
    panel = Panel(entry.name, entry.title, parts)
    if not parts:
        return None
    return Public(seen).panel(panel) if seen.public else panel


def _read(entry: Entry, seen: Seen, parts: list[Part]) -> None:
    """Adds the parts of a panel; where records are damaged, those that can be read without them."""
    try:
        parts += entry.parts(seen)
    except NOT_AS_IT_SHOULD_BE:
        if not seen.take_care():
            raise
        parts[:] = [Text(flaw, "bad") for flaw in seen.run.flaws]
        parts += entry.parts(seen)


_PATH = re.compile(
    r"(?:(?<![\w./~<])~?/|(?<![\w./~<:])//+|\b(?:file|s?ftp|scp|ssh|rsync):/+)"
    r"(?:[^\s/'\"`:;,()<>|\\{}\[\]]+/+)*[^\s/'\"`:;,()<>|\\{}\[\]]+/?"
)
"""An absolute path, or one below somebody's home, or on another machine."""
_ADDRESS = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"
    r"|(?<![\w:])(?=[\da-f:]*::|(?:[\da-f]+:){7})[\da-f:]*[\da-f](?![\w:])",
    re.IGNORECASE,
)
_SEGMENT = re.compile(r"worker-\d+-(.+)-\d+-[0-9a-f]+\.jsonl")
_LONG = 5
"""Characters from which on a name is found within other words, too."""
_TEXTS = ("data", "datasets", "description", "domain", "label", "sort", "text", "title", "values")
"""Where a specification of a chart has texts of the run."""


class Public:
    """Hides what a run knows of its machine and of its user."""

    def __init__(self, seen: Seen) -> None:
        self._root = str(seen.paths.root)
        names = {name.lower(): "HOST" for name in _hosts(seen)} | {
            one.lower(): "USER" for one in _users(seen)
        }
        self._names = {name: names[name] for name in sorted(names, key=len, reverse=True) if name}
        found = [re.escape(one) if len(one) >= _LONG else rf"\b{re.escape(one)}\b" for one in self._names]
        self._pattern = re.compile("|".join(found) or r"(?!)", re.IGNORECASE)

    def panel(self, panel: Panel) -> Panel:
        """The same panel, its texts without them."""
        return panel._replace(parts=[self._part(part) for part in panel.parts])

    def text(self, text: str) -> str:
        """A text without them; paths within the run stay, seen from its directory."""
        text = text.replace(f"{self._root}/", "").replace(self._root, ".")
        text = _PATH.sub(lambda found: f"…/{Path(found[0]).name}", text)
        return self._pattern.sub(lambda found: self._names[found[0].lower()], _ADDRESS.sub("ADDRESS", text))

    def _part(self, part: Any) -> Any:
        match part:
            case str():
                return self.text(part)
            case Picture():
                svg = self.text(part.data.decode("utf-8", "replace")).encode()
                data = plain_png(part.data) if part.media == "image/png" else svg
                return part._replace(caption=self.text(part.caption), alt=self.text(part.alt), data=data)
            case Sketch():
                return part._replace(
                    caption=self.text(part.caption), svg=self.text(part.svg), table=self._part(part.table)
                )
            case Mapping():
                return {key: self._spec(one, key in _TEXTS) for key, one in part.items()}
            case tuple() if hasattr(part, "_fields"):
                return type(part)(*map(self._part, part))
            case list() | tuple():
                return [self._part(one) for one in part]
        return part

    def _spec(self, value: Any, told: bool) -> Any:
        """A part of a chart's specification: words of Vega-Lite stay, even if a user is named `bar`."""
        if isinstance(value, Mapping):
            return {key: self._spec(one, told or key in _TEXTS) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self._spec(one, told) for one in value]
        return self.text(value) if told and isinstance(value, str) else value


def plain_png(data: bytes) -> bytes:
    """A PNG without what programs note in it: texts, times, EXIF (chunks of PNG, RFC 2083)."""
    kept, at = data[:8], 8
    while at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] not in (b"tEXt", b"zTXt", b"iTXt", b"eXIf", b"tIME"):
            kept += data[at:end]
        at = end
    return kept


def _hosts(seen: Seen) -> Iterator[str]:
    """The hosts and nodes of controllers, workers and blocks, and this one."""
    yield from (socket.gethostname(), socket.gethostname().partition(".")[0])
    held = read_lease(seen.paths)
    if held is not None:
        yield held[0].host
    with suppress(DielError):
        yield seen.run.run_file.host
    with suppress(DielError, OSError):
        yield from (found[1] for name in segments(seen.paths.journal) if (found := _SEGMENT.fullmatch(name)))
    with suppress(DielError, OSError):
        history = seen.run.history
        for worker in history.workers.values():
            yield from (worker["node"] or "", worker["host"] or "")
        yield from (block["nodes"] for block in history.blocks.values())


def _users(seen: Seen) -> Iterator[str]:
    with suppress(DielError):
        yield seen.run.run_file.user
    with suppress(OSError, KeyError):
        yield getpass.getuser()
