"""The plan: how a workflow will run on a site. It submits nothing, and asks no scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

from diel.check import Checked, check
from diel.check.command import missing_shells
from diel.check.environment import missing_environments
from diel.check.gang import check_gang_room
from diel.check.launcher import with_launcher
from diel.check.service import check_room
from diel.errors import Problem, SpecError
from diel.graph import StageGraph
from diel.graph.judge import judge_of
from diel.modules.catalogue import Module
from diel.site import (
    Pool,
    Shape,
    Site,
    find_program,
    find_site,
    lacks,
    launcher_words,
    nodes_that_fit,
    rooms,
    shape_of,
)
from diel.spec import Axis, Resources, Workflow


class StagePlan(NamedTuple):
    """How one stage will run."""

    name: str
    kind: str
    axes: tuple[str, ...]
    tasks: int | None
    """None if only the run will show it."""
    shape: Shape
    """What one task needs of its pool."""
    cores: int
    """Cores of one task, on all its nodes."""
    gpus: int
    launcher: tuple[str, ...]
    seconds: float | None
    """Longest run time of a task: its walltime, or its timeout."""

    @property
    def pool(self) -> str:
        return self.shape.pool

    @property
    def core_hours(self) -> float | None:
        """The most that its tasks can cost; None without a bound."""
        if self.tasks is None or self.seconds is None:
            return None
        return self.tasks * self.cores * self.seconds / 3600


class AxisPlan(NamedTuple):
    """How many points a search or loop may have."""

    axis: Axis
    most: int | None
    """None if it cannot be known."""
    context: tuple[str, ...]
    """The axes that it runs over, once for each combination of their points."""

    def __str__(self) -> str:
        """`up to 16 trials, 4 at a time, for each material`."""
        each = f", for each {' × '.join(self.context)}" if self.context else ""
        return self.axis.describe(self.most) + each

    def document(self) -> dict[str, Any]:
        return {
            "kind": self.axis.word,
            "most": self.most,
            "parallel": self.axis.at_once(self.most),
            "each": list(self.context),
            "may_end_early": self.axis.may_end_early,
        }


class Plan(NamedTuple):
    """How a workflow will run on a site."""

    checked: Checked
    site: Site
    stages: Mapping[str, StagePlan]
    capacity: int
    """Cores that can be busy at the same time."""

    @property
    def executor(self) -> Literal["threads", "blocks"]:
        """Worker processes of this machine (fed by threads), or Parsl's HTEX in blocks."""
        return "blocks" if self.site.scheduled else "threads"

    @property
    def workflow(self) -> Workflow:
        return self.checked.workflow

    @property
    def graph(self) -> StageGraph:
        return self.checked.graph

    @property
    def modules(self) -> Mapping[str, Module]:
        return self.checked.modules

    @property
    def extra_workers(self) -> int:
        """Workers on this machine besides those for its cores: for services that hold no core."""
        if self.site.scheduled:
            return 0
        stages = self.workflow.stages.values()
        return sum(stage.replicas for stage in stages if stage.service and stage.service.shared_cores)

    @property
    def uses_environments(self) -> bool:
        """Whether a stage names an environment."""
        return self.workflow.any_stage(lambda stage: stage.environment)

    def fits(self, stage: str, wanted: Resources) -> bool:
        """Whether a task of a stage fits its pool with these resources."""
        pool = self.site.pools[self.stages[stage].pool]
        return not lacks(pool, wanted, scheduled=self.site.scheduled)

    @property
    def tasks(self) -> int | None:
        """All tasks; None if only the run will show it."""
        counts = [stage.tasks for stage in self.stages.values()]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def shapes(self) -> dict[Shape, list[str]]:
        """The shapes that stages ask for, each with these stages."""
        found: dict[Shape, list[str]] = {}
        for name, stage in self.stages.items():
            found.setdefault(stage.shape, []).append(name)
        return found

    @property
    def adaptive(self) -> dict[str, AxisPlan]:
        """The searches and loops that a stage runs over."""
        used = {label for stage in self.stages.values() for label in stage.axes}
        return {
            label: AxisPlan(axis, self.checked.counts[label], judge_of(self.workflow, label).context)
            for label, axis in self.workflow.axes.items()
            if label in used and axis.adaptive
        }

    @property
    def may_end_early(self) -> bool:
        """Whether there can be fewer tasks than counted, because a search or loop can end early."""
        return any(adaptive.axis.may_end_early for adaptive in self.adaptive.values())

    @property
    def core_hours(self) -> float | None:
        """The most that the run can cost; None if a stage has no bound."""
        costs = [stage.core_hours for stage in self.stages.values()]
        return None if None in costs else sum(cost or 0.0 for cost in costs)

    @property
    def critical_path(self) -> tuple[str, ...]:
        """The longest chain of stages, by the longest run time of their tasks."""
        return self.graph.critical_path({n: s.seconds or 0.0 for n, s in self.stages.items()})

    def document(self) -> dict[str, Any]:
        """The plan as JSON."""
        return {
            "workflow": self.workflow.name,
            "site": self.site.name,
            "executor": self.executor,
            "tasks": self.tasks,
            "core_hours": self.core_hours,
            "critical_path": list(self.critical_path),
            "adaptive": {label: axis.document() for label, axis in self.adaptive.items()},
            "stages": {
                stage.name: {
                    "kind": stage.kind,
                    "tasks": stage.tasks,
                    "axes": {axis: self.checked.counts[axis] for axis in stage.axes},
                    "pool": stage.pool,
                    "shape": stage.shape.label,
                    "cores": stage.cores,
                    "gpus": stage.gpus,
                    "launcher": list(stage.launcher),
                    "walltime_s": stage.seconds,
                    "core_hours": stage.core_hours,
                }
                for stage in self.stages.values()
            },
        }


def prepare(
    file: Path,
    settings: Sequence[str] = (),
    params_files: Sequence[Path] = (),
    site: str | None = None,
    runs: Path | None = None,
) -> Plan:
    """Checks a workflow file and plans it for a site, with the hyperparameters of the project of `runs`.

    Raises SpecError and UsageError.
    """
    checked = check(file, settings, params_files, runs=runs)
    return make_plan(checked, find_site(site, file.parent))


def make_plan(checked: Checked, site: Site) -> Plan:
    """Places each stage in a pool. Raises SpecError if a stage fits none."""
    problems = list(missing_shells(checked.document, site))
    if checked.workflow.any_stage(lambda stage: stage.environment):
        problems += missing_environments(checked.document, site)
    stages: dict[str, StagePlan] = {}
    for name in checked.graph.order:
        wanted = checked.workflow.stages[name].resources
        pool = _choose(checked, site, name, wanted, problems)
        if wanted.mpi:
            site = with_launcher(checked.document, site, pool, name, wanted, problems)
        stages[name] = _stage_plan(checked, site, name, pool)
    if not problems:
        held = {name: (stage.pool, stage.cores) for name, stage in stages.items()}
        shapes = {name: stage.shape for name, stage in stages.items()}
        if checked.workflow.any_stage(lambda stage: stage.asks):
            problems += check_room(checked, site, held, {name: shape.label for name, shape in shapes.items()})
        if checked.workflow.any_stage(lambda stage: stage.joined):
            problems += check_gang_room(checked, site, held, shapes)
    if problems:
        raise SpecError(problems)
    return Plan(checked, site, stages, sum(rooms(site).values()))


def _choose(checked: Checked, site: Site, name: str, wanted: Resources, problems: list[Problem]) -> str:
    """The first pool that a stage fits into, or the pool that it names."""
    pools: Mapping[str, Pool] = site.pools
    if wanted.pool is not None:
        if wanted.pool not in pools:
            message = f"site '{site.name}' has no pool '{wanted.pool}'"
            hint = f"pools: {', '.join(pools)}"
            problems.append(checked.document.problem(("stages", name, "resources", "pool"), message, hint))
            return next(iter(pools))
        pools = {wanted.pool: pools[wanted.pool]}
    missing = {label: lacks(pool, wanted, scheduled=site.scheduled) for label, pool in pools.items()}
    fitting = [label for label, lacking in missing.items() if not lacking]
    if fitting:
        return fitting[0]
    reasons = "; ".join(f"pool '{label}': {', '.join(lacking)}" for label, lacking in missing.items())
    spread = [nodes_that_fit(pool, wanted, scheduled=site.scheduled) for pool in pools.values()]
    over = next((f"write `nodes: {nodes}`, " for nodes in spread if nodes is not None), "")
    problems.append(
        checked.document.problem(
            ("stages", name, "resources"),
            f"fits no pool of site '{site.name}'",
            f"{reasons}; {over}ask for less, or choose another site with --site",
        )
    )
    return next(iter(pools))


def _stage_plan(checked: Checked, site: Site, name: str, pool: str) -> StagePlan:
    stage = checked.workflow.stages[name]
    wanted = stage.resources
    counts = [*(checked.counts[axis] for axis in stage.over), stage.replicas]
    shares = stage.service is not None and stage.service.shared_cores and not site.scheduled
    return StagePlan(
        name=name,
        kind=checked.kind(name),
        axes=stage.over,
        tasks=None if None in counts else prod(count or 0 for count in counts),
        shape=shape_of(pool, wanted),
        cores=0 if shares else wanted.cores,
        gpus=wanted.gpus,
        launcher=_launcher(site, pool, wanted) if wanted.mpi else (),
        seconds=wanted.walltime or stage.timeout,
    )


def _launcher(site: Site, pool: str, wanted: Resources) -> tuple[str, ...]:
    words = launcher_words(site, pool, wanted)
    if site.scheduled or not words:  # without words it has a problem
        return words  # the program is on the node, not on this host
    return (find_program(words[0]) or words[0], *words[1:])
