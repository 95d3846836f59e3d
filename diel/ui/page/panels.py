"""The panels of a page, in their order, those of failures, hyperparameters and provenance among them."""

import getpass
import re
import shlex
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from diel.base.errors import DielError
from diel.base.form import NOT_AS_IT_SHOULD_BE
from diel.base.values import clock
from diel.observe.explain.run import failures_of, skips_of
from diel.observe.status.stage import named_task
from diel.store.journal.segment import segments
from diel.store.project.lease import read_lease
from diel.store.project.run_file import read_kept_workflow
from diel.store.registry import kept_values
from diel.store.table import allowed_text
from diel.ui.page import head, timeline
from diel.ui.page.outcome import result, search, service
from diel.ui.page.panel import Cell, Entry, Facts, Grid, Log, Panel, Part, Picture, RunView, Sketch, Text
from diel.ui.page.plot import cell

_TEXT = 40_000


def provenance(view: RunView) -> Iterator[Part]:
    run_file = view.run.run_file
    facts = [
        ("workflow", run_file.workflow),
        ("file", run_file.source),
        ("asked for", run_file.command_line),
        ("made", clock(run_file.created)),
        ("by", "" if view.public else f"{run_file.user} on {run_file.host}"),
        ("in", "" if view.public else run_file.cwd),
        ("run", "" if view.public else str(view.paths.root)),
        ("site", run_file.site),
        ("diel", run_file.diel),
        ("Python", run_file.python),
        ("took results of", ", ".join(view.status.uses)),
        *((f"environment {name}", text) for name, text in view.status.environments.items()),
    ]
    yield Facts([(name, text) for name, text in facts if text])
    rows = [_version(view, name) for name in view.run.workflow.stages]
    heads = ("stage", "program", "parts of its keys")
    yield Grid("What each stage is: the digests of all that its tasks' results hang on", heads, rows)
    text = read_kept_workflow(view.paths)
    more = f", its first {_TEXT:,} characters" if len(text) > _TEXT else ""
    yield Log(f"The workflow as it was when the run began{more}", text[:_TEXT])


def _version(view: RunView, name: str) -> list[Cell]:
    stage = view.run.workflow.stages[name]
    history = view.run.history.stages.get(name)
    provenance = {} if history is None else dict(history.parts)
    command = stage.command if isinstance(stage.command, str) else shlex.join(map(str, stage.command or ()))
    program = stage.module or " ".join(command.split())
    digests = ", ".join(f"{part} {digest[:8]}" for part, digest in provenance.items())
    return [name, program if len(program) <= 160 else f"{program[:159]}…", digests]


def hyperparameters(view: RunView) -> Iterator[Part]:
    workflow, values = view.run.workflow, kept_values(view.run.run_file).values
    rows: list[list[Cell]] = []
    for name, hp in workflow.hyperparameters.items():
        held = values.get(name)
        searched = [label for label, axis in workflow.axes.items() if name in axis.sets]
        source = f"search: {', '.join(searched)}" if searched else ""
        if held is not None and not searched:
            source = ": ".join(filter(None, (held.origin, held.source)))
        value = None if held is None or searched else cell(held.value)
        bounds = allowed_text(hp.choices, hp.low, hp.high, log=hp.log)
        allowed = ", ".join(filter(None, ("" if hp.choices else hp.type, bounds)))
        rows.append([f"hp.{name}", value, source, allowed, cell(hp.default), hp.description])
    if rows:
        heads = ("name", "value", "where it came from", "allowed", "default", "description")
        yield Grid("Hyperparameters", heads, rows)


GROUPS = 40
SHOWN = 8
"""The most groups whose output is shown."""
END = 4000
"""Characters of an end that are shown: the last ones."""

_GIVEN_UP = ("upstream", "void", "hold", "max_failures", "fail_fast", "imports", "changed")
"""Reasons for which tasks do not run that no workflow asks for."""


def failures(view: RunView) -> Iterator[Part]:
    run, status = view.run, view.status
    if status.trouble:
        yield Text(f"Trouble: {status.trouble}", "bad")
    readable = False
    with suppress(DielError):
        readable = bool(run.workflow.stages)
    if not readable and status.failures:  # nobody knows what tasks that failed have in common
        rows: list[list[Cell]] = [
            [named_task(group), group["class"], group["message"][:300]] for group in status.failures[:GROUPS]
        ]
        more = max(0, len(status.failures) - GROUPS)
        yield Grid("Failed tasks, as the journal has them", ("task", "class", "message"), rows, more)
    failed = [group.document for name in run.graph.order for group in failures_of(run, name)]
    if failed:
        heads = ("stage", "tasks", "class", "message", "tasks that failed so", "shared by them")
        groups = [_failure_row(group) for group in failed[:GROUPS]]
        yield Grid("Failed tasks, those alike together", heads, groups, max(0, len(failed) - GROUPS))
        for group in failed[:SHOWN]:
            if group["stderr_tail"].strip():
                caption = f"{run.named(group['first'])}, the end of its stderr"
                yield Log(caption, group["stderr_tail"].rstrip()[-END:])
            yield Text(f"Next: {group['next']}", "note")
    skips = ((name, group) for name in run.graph.order for group in skips_of(run, name))
    given_up = [(name, group.lines[0]) for name, group in skips if group.document["reason"] in _GIVEN_UP]
    if given_up:
        why = [[name, line.removeprefix(f"{name}: ")] for name, line in given_up[:GROUPS]]
        yield Grid("What did not run", ("stage", "why"), why)


def _failure_row(group: dict[str, Any]) -> list[Cell]:
    tasks, message, headline = group["tasks"], group["message"], group["headline"]
    text = ": ".join(filter(None, (message, "" if headline in message else headline)))
    tolerated = f", tolerated by {group['tolerated']}" if group["tolerated"] else ""
    more = f" and {group['count'] - len(tasks):,} more" if group["count"] > len(tasks) else ""
    named, kind = f"{', '.join(tasks)}{more}", f"{group['class']}{tolerated}"
    return [group["stage"], group["count"], kind, text[:300], named, group["shared"]]


ENTRIES = (
    Entry("run", "The run", head.parts),
    Entry("stages", "Stages", head.stages),
    Entry("graph", "Graph", head.drawn_graph),
    Entry("timeline", "Timeline", timeline.parts),
    Entry("cores", "Cores", timeline.cores),
    Entry("failures", "Failures", failures),
    Entry("searches", "Searches", search.parts),
    Entry("loops", "Loops", search.loops),
    Entry("surrogates", "Surrogates", service.surrogates),
    Entry("streams", "Streams", service.streams),
    Entry("services", "Services", service.parts),
    Entry("results", "Results", result.parts),
    Entry("reported", "Reported on the way", search.reported),
    Entry("artifacts", "Artifacts", result.artifacts),
    Entry("hyperparameters", "Hyperparameters", hyperparameters),
    Entry("provenance", "Provenance", provenance),
)


def panels_of(view: RunView) -> list[Panel]:
    """Return the panels for which a run has something; of all that one fault hides, the first says so."""
    panels = [panel for entry in ENTRIES if (panel := panel_of(entry, view)) is not None]
    by_text: dict[str, list[Panel]] = {}
    for panel in panels:
        match panel.parts:
            case [Text(text, "bad")]:
                by_text.setdefault(text, []).append(panel)
    for first, *fellows in by_text.values():
        if fellows:
            rest = f"Nor, for the same reason: {', '.join(hidden.title for hidden in fellows)}."
            panels[panels.index(first)] = first._replace(parts=[*first.parts, Text(rest, "bad")])
            panels = [panel for panel in panels if panel not in fellows]
    return panels


def panel_of(entry: Entry, view: RunView) -> Panel | None:
    """Return a panel; one that cannot be read says so, and there is none if a run has nothing for it."""
    parts: list[Part] = []
    try:
        _read(entry, view, parts)
    except (DielError, OSError) as error:
        parts.append(Text(f"This cannot be shown: {error}", "bad"))
    except NOT_AS_IT_SHOULD_BE as error:  # what another program, or half a write, left in the run's files
        wrong = f"{type(error).__name__}: {error}"
        parts.append(Text(f"This cannot be shown, as its files are not as diel writes them: {wrong}", "bad"))
    panel = Panel(entry.name, entry.title, parts)
    if not parts:
        return None
    return Public(view).panel(panel) if view.public else panel


def _read(entry: Entry, view: RunView, parts: list[Part]) -> None:
    """Add the parts of a panel; where records are damaged, those that can be read without them."""
    try:
        parts += entry.parts(view)
    except NOT_AS_IT_SHOULD_BE:
        if not view.take_care():
            raise
        parts[:] = [Text(flaw, "bad") for flaw in view.run.flaws]
        parts += entry.parts(view)


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
    """Texts without what a run knows of its machine and its user."""

    def __init__(self, view: RunView) -> None:
        self._root = str(view.paths.root)
        names = dict.fromkeys(map(str.lower, _hosts(view)), "HOST")
        names |= dict.fromkeys(map(str.lower, _users(view)), "USER")
        self._names = {name: names[name] for name in sorted(names, key=len, reverse=True) if name}
        words = ((len(name) >= _LONG, re.escape(name)) for name in self._names)
        patterns = [word if is_long else rf"\b{word}\b" for is_long, word in words]
        self._pattern = re.compile("|".join(patterns) or r"(?!)", re.IGNORECASE)

    def panel(self, panel: Panel) -> Panel:
        """Return a panel whose texts lack names of hosts and users."""
        return panel._replace(parts=[self._part(part) for part in panel.parts])

    def text(self, text: str) -> str:
        """Return a text without them; paths within the run stay, seen from its directory."""
        text = text.replace(f"{self._root}/", "").replace(self._root, ".")
        text = _PATH.sub(lambda match: f"…/{Path(match[0]).name}", text)
        return self._pattern.sub(lambda match: self._names[match[0].lower()], _ADDRESS.sub("ADDRESS", text))

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
                return {key: self._spec(item, key in _TEXTS) for key, item in part.items()}
            case tuple() if hasattr(part, "_fields"):
                return type(part)(*map(self._part, part))
            case list() | tuple():
                return [self._part(item) for item in part]
        return part

    def _spec(self, value: Any, is_text: bool) -> Any:
        """Return part of a chart's specification. Words of Vega-Lite stay, even if a user is called `bar`."""
        if isinstance(value, Mapping):
            return {key: self._spec(item, is_text or key in _TEXTS) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._spec(item, is_text) for item in value]
        return self.text(value) if is_text and isinstance(value, str) else value


def plain_png(data: bytes) -> bytes:
    """Return a PNG without what programs note in it: texts, times, EXIF (chunks of PNG, RFC 2083)."""
    plain, at = data[:8], 8
    while at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] not in (b"tEXt", b"zTXt", b"iTXt", b"eXIf", b"tIME"):
            plain += data[at:end]
        at = end
    return plain


def _hosts(view: RunView) -> Iterator[str]:
    """Yield the hosts and nodes of controllers, workers and blocks, and this one."""
    yield from (socket.gethostname(), socket.gethostname().partition(".")[0])
    held = read_lease(view.paths)
    if held is not None:
        yield held[0].host
    with suppress(DielError):
        yield view.run.run_file.host
    with suppress(DielError, OSError):
        yield from (match[1] for name in segments(view.paths.journal) if (match := _SEGMENT.fullmatch(name)))
    with suppress(DielError, OSError):
        history = view.run.history
        for worker in history.workers.values():
            yield from (worker["node"] or "", worker["host"] or "")
        yield from (block["nodes"] for block in history.blocks.values())


def _users(view: RunView) -> Iterator[str]:
    with suppress(DielError):
        yield view.run.run_file.user
    with suppress(OSError, KeyError):
        yield getpass.getuser()
