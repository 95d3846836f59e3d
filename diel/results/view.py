"""A recorded run through the controller's own eyes: which task reads which, and what it gets.

The controller's links and recipes are used as they are, so that what is told here is what the
controller does, and not a second account of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from diel.errors import DielError
from diel.modules.catalogue import Module, ModuleNotFound, find, search_path
from diel.project.runs import all_runs
from diel.results.recorded import Recorded
from diel.services import REPLICA
from diel.states import RunState, TaskState
from diel.status import AxisStatus, axes_of
from diel.tasks.link import Link
from diel.tasks.recipe import Recipe, family_parts
from diel.tasks.results import MissingInput, Results
from diel.tasks.service import ServiceLink
from diel.tasks.sources import Sources, link_of
from diel.tasks.stage_run import StageRun

if TYPE_CHECKING:
    from diel.journal.records import Made


class _Lookup(Results):
    """Results that are read from the journal when they are asked for, a stage at a time."""

    def __init__(self, run: Recorded) -> None:
        super().__init__(run.paths)
        self._run = run
        self._stages: dict[str, dict[int, Made]] = {}

    def made(self, stage: str, index: int) -> Made:
        """Raises MissingInput where the task has no result."""
        if stage not in self._stages:
            self._stages[stage] = self._run.records(stage)
        if index not in self._stages[stage]:
            raise MissingInput(f"{stage}/{index} has no result")
        return self._stages[stage][index]


MAX_RUNS = 50
"""How many earlier runs are searched for a task."""


class RunView:
    """The stages of a recorded run, with their links and recipes."""

    def __init__(self, run: Recorded) -> None:
        self.run = run
        self._earlier: list[RunView] = []
        self._unread: Iterator[RunView] = self._read_earlier()

    def earlier(self) -> Iterator[RunView]:
        """The runs of the same workflow that were made before, the nearest first; each is read once."""
        yield from self._earlier
        for view in self._unread:
            self._earlier.append(view)
            yield view

    def _read_earlier(self) -> Iterator[RunView]:
        run = self.run
        others = [paths for paths in all_runs(run.paths.root.parent) if paths.root != run.paths.root]
        found = 0
        for paths in reversed(others):
            old = Recorded(paths)
            try:
                same = old.run_file.workflow == run.run_file.workflow
                before = old.run_file.created <= run.run_file.created
            except DielError:
                continue
            if same and before:
                yield RunView(old)
                found += 1
                if found == MAX_RUNS:
                    return

    @cached_property
    def stages(self) -> dict[str, StageRun]:
        """The stages as the controller would hold them; `domain` is None where an axis is not known."""
        graph = self.run.graph
        made = {}
        for name, spec in self.run.workflow.stages.items():
            points = {label: found for label in spec.over if (found := self.run.points(label)) is not None}
            domain = self.run.domain(name) if len(points) == len(spec.over) else None
            if spec.service is not None and (replicas := self.run.points(REPLICA)) is not None:
                points[REPLICA] = replicas
            history = self.run.history.stage(name)
            adaptive = tuple(self.run.adaptive[label] for label in spec.over if label in self.run.adaptive)
            made[name] = StageRun(
                name,
                spec,
                history,
                graph.depth[name],
                domain,
                points,
                adaptive,
                void=name in self.run.void,
                omitted={index for index, reason in enumerate(history.left_out) if reason},
            )
        return made

    @cached_property
    def axes(self) -> tuple[AxisStatus, ...]:
        """How the searches and loops stand."""
        driven = self.run.state is RunState.RUNNING
        return axes_of(self.run.paths, self.run.history, time.time(), driven=driven)

    def state(self, stage: str, index: int) -> TaskState:
        return self.run.history.stage(stage).state(index)

    @cached_property
    def links(self) -> list[Link]:
        """One link an edge; those whose upstream axes are not known yet pick nothing."""
        made = [
            link_of(edge, self.stages[edge.upstream], self.stages[edge.downstream], self.run.adaptive)
            for edge in self.run.graph.edges
        ]
        for link in made:
            if link.up.domain is not None:
                link.resolve()
            if isinstance(link, ServiceLink):
                link.inputs = [other for other in made if other.edge.downstream == link.up.name]
                link.key_of = self._key_of(link.up.name)
        return made

    def _key_of(self, stage: str) -> Callable[[int], str]:
        return lambda index: self.recipe(stage).resolve(index).key

    def into(self, stage: str) -> list[Link]:
        """The links that a stage waits for."""
        return [link for link in self.links if link.edge.downstream == stage]

    @cached_property
    def _recipes(self) -> dict[str, Recipe]:
        return {}

    @cached_property
    def _results(self) -> Results:
        return _Lookup(self.run)

    def recipe(self, stage: str) -> Recipe:
        """How the tasks of a stage get their parameters and inputs.

        Its digests of files and modules are not those of the run: these may have changed since.
        """
        if stage not in self._recipes:
            held = self.stages[stage]
            folder, paths = self.run.run_file.folder, self.run.paths
            sources = Sources(held, self.into(stage), self._results, self.hyperparameters, folder, paths)
            module = self.module(stage)
            # Without the files, whose content would be read for a digest that nobody asks for.
            self._recipes[stage] = Recipe(sources, module, family_parts(held.spec, module, {}))
        return self._recipes[stage]

    @property
    def hyperparameters(self) -> Mapping[str, object]:
        return self.run.run_file.hyperparameters

    def module(self, stage: str) -> Module | None:
        """The module of a stage as it is now; None for a command, and where it is gone."""
        reference = self.run.workflow.stages[stage].module
        if reference is None:
            return None
        run_file = self.run.run_file
        try:
            return find(reference, search_path(run_file.folder, Path(run_file.cwd)))
        except ModuleNotFound:
            return None

    def unknown_axes(self, stage: str) -> list[tuple[str, str]]:
        """The axes of a stage that are not known yet, with the stage that makes each."""
        axes = self.run.workflow.axes
        return [
            (label, axes[label].maker or "")
            for label in self.run.workflow.stages[stage].over
            if self.run.points(label) is None
        ]
