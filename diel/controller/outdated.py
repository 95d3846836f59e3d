"""Results that were made without a task which is tried again: made again, and what was made of them.

`min_success` lets a task go on while some of those that it reads have failed. If these succeed after a
resume, its result would no longer be one of what the run holds.
"""

from __future__ import annotations

from diel.axes.domain import Group
from diel.controller.missing import Again
from diel.explain.view import View
from diel.tasks.link import Link
from diel.tasks.stage_run import StageRun


def find_outdated(view: View) -> Again:
    """The tasks whose results count no more once the run is resumed, by stage, with their attempts.

    They have no result any more in `view`. Left as they are: the tasks of searches and loops, whose decisions
    hold for the whole run, and those of which an axis is made, whose points do.
    """
    if all(link.edge.min_success == 1 for link in view.links):
        return {}
    outdated = _Outdated(view)
    for name in view.run.graph.order:
        outdated.look_at(view.stages[name])
    return outdated.found


class _Outdated:
    """Looks at the stages from the first to the last."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._lasting = {link.edge.upstream for link in view.links if link.edge.axis is not None}
        self._changes: dict[str, set[int]] = {name: set() for name in view.stages}
        """The tasks that are tried again, or made again."""
        self._known: dict[tuple[int, Group], tuple[bool, bool]] = {}
        self.found: dict[str, dict[int, int]] = {}

    def look_at(self, stage: StageRun) -> None:
        links = [link for link in self._view.into(stage.name) if _reads(link)]
        lasts = bool(stage.adaptive) or stage.name in self._lasting or stage.spec.service is not None
        for index in range(stage.size if stage.domain is not None else 0):
            state = stage.history.state(index)
            if not state.good:
                if self._is_tried_again(stage, index, links):
                    self._changes[stage.name].add(index)
            elif not lasts and any(self._look(link, index)[0] for link in links):
                self._changes[stage.name].add(index)
                attempt = stage.history.result_attempt(index)
                self.found.setdefault(stage.name, {})[index] = attempt
                stage.history.lose(index, attempt)

    def _is_tried_again(self, stage: StageRun, index: int, links: list[Link]) -> bool:
        """Whether a task that had no result may have one after the resume."""
        history = stage.history
        if index in stage.omitted or index in history.tolerated or index in history.gone:
            return False
        return all(link.edge.min_success < 1 or not self._look(link, index)[1] for link in links)

    def _look(self, link: Link, index: int) -> tuple[bool, bool]:
        """Whether any of what a task reads changes, and whether any stays without a result.

        Told once for each group: a million tasks may read the same one.
        """
        if link.up.domain is None:
            return False, False
        group = link.group_of_downstream(index)
        place = (id(link), group)
        if place not in self._known:
            changes, good = self._changes[link.up.name], link.up.history.is_good
            changed = lacks = False
            for member in link.members(group):
                changed |= member in changes
                lacks |= not (good(member) or member in changes or member in link.up.omitted)
            self._known[place] = changed, lacks
        return self._known[place]


def _reads(link: Link) -> bool:
    """Whether tasks read results along a link, of tasks that they themselves do not choose."""
    edge = link.edge
    reads = edge.output is not None or edge.hyperparameter is not None
    return reads and not (edge.chosen or edge.stream or edge.service or edge.published)
