"""The panels of a page, in their order."""

from __future__ import annotations

from diel.errors import DielError
from diel.form import NOT_AS_IT_SHOULD_BE
from diel.page import graph, head, occupancy, stages, timeline
from diel.page.outcome import (
    artifact,
    curve,
    failure,
    hyperparameter,
    loop,
    provenance,
    result,
    search,
    service,
    surrogate,
)
from diel.page.outcome.stream import ENTRY as FLOWS
from diel.page.panel import Entry, Panel, Part, Text
from diel.page.public import Public
from diel.page.seen import Seen

ENTRIES = (
    Entry("run", "The run", head.parts),
    Entry("stages", "Stages", stages.parts),
    Entry("graph", "Graph", graph.parts),
    Entry("timeline", "Timeline", timeline.parts),
    Entry("cores", "Cores", occupancy.parts),
    Entry("failures", "Failures", failure.parts),
    Entry("searches", "Searches", search.parts),
    Entry("loops", "Loops", loop.parts),
    Entry("surrogates", "Surrogates", surrogate.parts),
    FLOWS,
    Entry("services", "Services", service.parts),
    Entry("results", "Results", result.parts),
    Entry("reported", "Reported on the way", curve.parts),
    Entry("artifacts", "Artifacts", artifact.parts),
    Entry("hyperparameters", "Hyperparameters", hyperparameter.parts),
    Entry("provenance", "Provenance", provenance.parts),
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
