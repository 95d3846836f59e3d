"""A recorded run as its controller sees it: which task reads which, and what it gets.

The controller's links and recipes are used as they are, so that this is what the controller does, and not a
second account of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from diel.axes.domain import UNKNOWN
from diel.errors import DielError
from diel.modules.catalogue import Module, ModuleNotFound, again, find, search_path
from diel.modules.sources import newest
from diel.project.runs import all_runs
from diel.results.recorded import Recorded
from diel.states import RunState
from diel.status import AxisStatus, axes_of
from diel.tasks.link import Link
from diel.tasks.recipe import Recipe, family_parts
from diel.tasks.results import MissingInput, Results
from diel.tasks.service import tie
from diel.tasks.sources import Sources, link_of
from diel.tasks.stage_run import StageRun
from diel.tasks.watched import Watch

if TYPE_CHECKING:
    from diel.journal.records import Made


MAX_RUNS = 50
"""How many earlier runs are searched for a task."""


class RunView:
    """The stages of a recorded run, with their links and recipes."""

    def __init__(self, run: Recorded) -> None:
        self.run = run
        self.hyperparameters: Mapping[str, object] = run.run_file.hyperparameters
        self._recipes: dict[str, Recipe] = {}
        self._results = _Lookup(run)
        self._earlier: list[RunView] = []
        self._unread = islice(_earlier_runs(run), MAX_RUNS)

    def earlier(self) -> Iterator[RunView]:
        """The runs of the same workflow that were made before, the nearest first; each is read once."""
        yield from self._earlier
        for old in self._unread:
            self._earlier.append(RunView(old))
            yield self._earlier[-1]

    @cached_property
    def _watch(self) -> Watch:
        return Watch(self.run.paths, records=False)

    @cached_property
    def stages(self) -> dict[str, StageRun]:
        """The stages as the controller would hold them; `known` only if all their axes are."""
        return {name: self._stage(name) for name in self.run.workflow.stages}

    def _stage(self, name: str) -> StageRun:
        run, spec = self.run, self.run.workflow.stages[name]
        points = {label: found for label in spec.over if (found := run.points(label)) is not None}
        domain = run.domain(name) if len(points) == len(spec.over) else None
        history = run.history.stage(name)
        return StageRun(
            name,
            spec,
            history,
            run.graph.depth[name],
            domain or UNKNOWN,
            points,
            partial(self.run.workflow.carried_units, name),
            adaptive=tuple(run.adaptive[label] for label in spec.over if label in run.adaptive),
            void=name in run.void,
            omitted={index for index, reason in enumerate(history.left_out) if reason},
        )

    @cached_property
    def axes(self) -> tuple[AxisStatus, ...]:
        """The state of the searches and loops."""
        driven = self.run.state is RunState.RUNNING
        return axes_of(self.run.paths, self.run.history, time.time(), driven=driven)

    @cached_property
    def links(self) -> list[Link]:
        """One link an edge; those whose upstream axes are not known yet pick nothing."""
        stages, adaptive = self.stages, self.run.adaptive
        edges = self.run.graph.edges
        made = [link_of(edge, stages[edge.upstream], stages[edge.downstream], adaptive) for edge in edges]
        for link in made:
            if link.up.known:
                link.resolve()
        tie(made, lambda stage, index: self.recipe(stage).resolve(index))
        return made

    def into(self, stage: str) -> list[Link]:
        """The links that a stage waits for."""
        return [link for link in self.links if link.edge.downstream == stage]

    def recipe(self, stage: str) -> Recipe:
        """How the tasks of a stage get their parameters and inputs.

        Its digests of files and modules are not those of the run: these may have changed since.
        """
        if stage not in self._recipes:
            held = self.stages[stage]
            folder, paths = self.run.run_file.folder, self.run.paths
            given = (self._results, self.hyperparameters, folder, paths, self._watch)
            sources = Sources(held, self.into(stage), *given)
            module = self.module(stage)
            # Without the files, whose content would be read for a digest that nobody asks for.
            self._recipes[stage] = Recipe(sources, module, family_parts(held.spec, module, (), stage))
        return self._recipes[stage]

    def module(self, stage: str) -> Module | None:
        """The module of a stage as the run keeps it, or as it is now; None without one, or if it is gone."""
        reference, run_file = self.run.workflow.stages[stage].module, self.run.run_file
        sources = newest(self.run.paths.sources)
        try:
            if sources is not None and stage in sources.modules:
                return again(sources.modules[stage], sources)
            path = search_path(run_file.folder, Path(run_file.cwd))
            home = self.run.document.home(("stages", stage, "module"))
            path = path if home is None else (home / "modules", *path)
            return None if reference is None else find(reference, path)
        except (ModuleNotFound, OSError):
            return None

    def unknown_axes(self, stage: str) -> list[tuple[str, str]]:
        """The axes of a stage that are not known yet, with the stage that makes each."""
        axes, over = self.run.workflow.axes, self.run.workflow.stages[stage].over
        return [(label, axes[label].maker or "") for label in over if self.run.points(label) is None]


def _earlier_runs(run: Recorded) -> Iterator[Recorded]:
    mine = run.run_file
    for paths in reversed(all_runs(run.paths.root.parent)):
        old = Recorded(paths)
        try:
            same = old.run_file.workflow == mine.workflow and old.run_file.created <= mine.created
        except DielError:
            continue
        if same and paths.root != run.paths.root:
            yield old


class _Lookup(Results):
    """Results that are read from the journal when they are asked for, a stage at a time."""

    def __init__(self, run: Recorded) -> None:
        super().__init__(run.paths)
        self._stage = cache(run.records)

    def made(self, stage: str, index: int) -> Made:
        """Raises MissingInput where the task has no result."""
        made = self._stage(stage)
        if index not in made:
            raise MissingInput(f"{stage}/{index} has no result")
        return made[index]
