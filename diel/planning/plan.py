"""The plan: how a workflow will run on a site. It submits nothing, and asks no scheduler."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

from diel.base.errors import Problem, SpecError, counted
from diel.planning.check import CheckedWorkflow, check
from diel.planning.check.command import missing_shells
from diel.planning.check.demand import Range, range_of, shared_room_flaws
from diel.planning.check.environment import missing_environments, missing_files
from diel.planning.check.launcher import with_launcher, words_of
from diel.site.find import find_site
from diel.site.shape import Shape, Unplaceable, ask_of, lacks, rooms
from diel.site.site import Site
from diel.workflow.graph import Gang, Key, StageGraph, gangs
from diel.workflow.graph.judge import AxisPlan, judge_of
from diel.workflow.graph.stage_graph import reach
from diel.workflow.models import Resources, Workflow
from diel.workflow.modules.catalogue import Module


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
    demand: Range | None = None
    """What its tasks ask for, if expressions say it; the rest is then that of its widest known task."""

    @property
    def pool(self) -> str:
        return self.shape.pool

    @property
    def launchers(self) -> Mapping[str, tuple[Sequence[str], Sequence[str]]]:
        """The words that start ranks, by their program: for the fewest and the most."""
        own = dict.fromkeys(self.launcher[:1], (self.launcher, self.launcher))
        return own if self.demand is None else self.demand.launchers

    @property
    def core_hours(self) -> float | None:
        """The most that its tasks can cost; None without a bound."""
        if self.tasks is None or self.seconds is None:
            return None
        core_seconds = self.cores * self.seconds if self.demand is None else self.demand.core_seconds or 0.0
        return self.tasks * core_seconds / 3600


class Plan(NamedTuple):
    """How a workflow will run on a site."""

    checked: CheckedWorkflow
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
        return self.workflow.any_stage(lambda stage: stage.is_surrounded)

    def fits(self, stage: str, resources: Resources, pool: str = "") -> bool:
        """Return whether a task of a stage fits its pool, by default the stage's, with these resources."""
        there = self.site.pools[pool or self.stages[stage].pool]
        return not lacks(there, resources, scheduled=self.site.scheduled)

    @property
    def tasks(self) -> int | None:
        """All tasks; None if only the run will show it."""
        counts = [stage.tasks for stage in self.stages.values()]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def shapes(self) -> dict[Shape, list[str]]:
        """The shapes that stages ask for, each with these stages."""
        stages: dict[Shape, list[str]] = {}
        for name, stage in self.stages.items():
            shapes = (stage.shape,) if stage.demand is None else stage.demand.shapes
            for shape in shapes:
                stages.setdefault(shape, []).append(name)
        return stages

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
        """Return the plan as JSON."""
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
                    "asks": None if stage.demand is None else stage.demand.document(),
                    "gpus": stage.gpus,
                    "launcher": list(stage.launcher),
                    **(
                        {"environment": environment}
                        if (environment := self.workflow.stages[stage.name].environment)
                        else {}
                    ),
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
    """Check a workflow file, and plan it for a site and a project. Raise SpecError and UsageError."""
    checked = check(file, settings, params_files, runs=runs)
    its_site = find_site(site, file.parent)
    missing: Iterable[Problem] = ()
    if checked.workflow.environments:
        missing = missing_files(checked.document, its_site, file.parent.absolute())
    return make_plan(checked, its_site, missing)


def make_plan(checked: CheckedWorkflow, site: Site, earlier: Iterable[Problem] = ()) -> Plan:
    """Place each stage in a pool. Raise SpecError if a stage fits none, with the problems known so far."""
    problems = [*earlier, *missing_shells(checked.document, site)]
    if checked.workflow.any_stage(lambda stage: stage.environment):
        problems += missing_environments(checked.document, site)
    stages: dict[str, StagePlan] = {}
    for name in checked.graph.order:
        try:
            site, stages[name] = _stage_plan(checked, site, name)
        except Unplaceable as error:
            for flaw in (error, *error.rest):
                place = ("stages", name, *flaw.key)
                problems.append(checked.document.problem(place, flaw.message, flaw.hint, offset=flaw.offset))
    if not problems:
        if checked.workflow.any_stage(lambda stage: stage.asks):
            problems += _check_service_room(checked, site, stages)
        if checked.workflow.any_stage(lambda stage: stage.joined):
            problems += _check_gang_room(checked, site, stages)
    if problems:
        raise SpecError(problems)
    return Plan(checked, site, stages, sum(rooms(site).values()))


def _stage_plan(checked: CheckedWorkflow, site: Site, name: str) -> tuple[Site, StagePlan]:
    """With the site, which can have had to look for its launcher. Raise Misfit where a task fits no pool."""
    stage = checked.workflow.stages[name]
    counts = [*(checked.counts[axis] for axis in stage.over), stage.replicas]
    demand = range_of(checked, site, name) if stage.demand else None
    ask = (demand and demand.widest) or ask_of(site, stage if demand is None else stage.bare)
    if stage.resources.mpi:
        site = with_launcher(site, ask.shape.pool, ask.spec.resources)
        ask = ask._replace(launcher=words_of(site, ask.shape.pool, ask.spec.resources))
    return site, StagePlan(
        name=name,
        kind=checked.kind(name),
        axes=stage.over,
        tasks=None if None in counts else prod(count or 0 for count in counts),
        shape=ask.shape,
        cores=ask.cores,
        gpus=ask.spec.resources.gpus,
        launcher=ask.launcher,
        seconds=ask.seconds if demand is None else demand.seconds,
        demand=demand,
    )


def _check_service_room(
    checked: CheckedWorkflow, site: Site, placed: Mapping[str, StagePlan]
) -> list[Problem]:
    """Find consumers without room beside their services; `placed` has their pools and cores, by stage."""
    stages = checked.workflow.stages
    sharing = [name for name, stage in stages.items() if stage.service is not None or stage.asks]
    problems = list(shared_room_flaws(checked, site, sharing))
    for name, stage in stages.items():
        if stage.service is not None or not stage.asks:
            continue
        needed = reach(stage.asks, lambda other: stages[other].asks)
        for pool, room in rooms(site).items():
            here = [n for n in (*needed, name) if not site.scheduled or placed[n].pool == pool]
            held = {other: placed[other].cores * stages[other].replicas for other in here}
            total = sum(held.values())
            if total <= room:
                continue
            cores = counted(held.pop(name, 0), "core")
            parts = [f"'{other}' {many}" for other, many in held.items() if many]
            where = f"pool '{pool}'" if pool else "this machine"
            message = f"'{name}' needs {cores} beside those of its services ({', '.join(parts)}): "
            message += f"{total} in all, and {where} has {room}"
            hint = "take fewer replicas or cores"
            if not site.scheduled:
                hint += ", or write `shared_cores: true` if a service works while its consumers wait for it"
            problems.append(checked.document.problem(("stages", name, "services"), message, hint))
            break
        else:
            problems += _too_many_shapes(checked, site, [placed[n] for n in (name, *needed)])
    return problems


def _too_many_shapes(checked: CheckedWorkflow, site: Site, stages: Sequence[StagePlan]) -> Iterator[Problem]:
    """Report a stage and its services that need too many blocks: one a shape, and services keep theirs."""
    by_pool: dict[str, dict[str, None]] = {}
    for stage in stages:
        by_pool.setdefault(stage.pool, {})[stage.shape.label] = None
    for pool, distinct in by_pool.items():
        if site.scheduled and len(distinct) > site.pools[pool].blocks:
            message = (
                f"'{stages[0].name}' and its services need blocks of {len(distinct)} shapes at the same time "
            )
            message += f"({', '.join(distinct)}), and pool '{pool}' may have {site.pools[pool].blocks}"
            hint = "give them the same resources, put one into another pool, or raise the pool's `blocks`"
            yield checked.document.problem(("stages", stages[0].name, "services"), message, hint)


def _check_gang_room(checked: CheckedWorkflow, site: Site, placed: Mapping[str, StagePlan]) -> list[Problem]:
    """Gangs that could never run. `placed` gives a task's pool, cores and shape by stage."""
    problems: list[Problem] = []
    for gang in gangs(checked.graph):
        problems += shared_room_flaws(checked, site, gang.stages)
        counts = {name: _at_once(checked, gang, name) for name in gang.stages}
        for pool, room in rooms(site).items():
            here = [n for n in gang.stages if not site.scheduled or placed[n].pool == pool]
            needed = {name: (counts[name] or 1) * placed[name].cores for name in here}
            if sum(needed.values()) <= room:
                continue
            where = f"pool '{pool}' of site '{site.name}'" if site.scheduled else "this machine"
            needs = ", ".join(f"'{name}' {_tasks(counts[name])} of {placed[name].cores}" for name in here)
            message = f"these stages run at the same time and need {sum(needed.values())} cores ({needs})"
            hint = "ask for fewer cores or tasks, or choose another site with --site"
            key = _key(checked, gang)
            problems.append(checked.document.problem(key, f"{message}, but {where} has {room}", hint))
            break
        else:
            if site.scheduled:
                problems += _too_many_blocks(checked, site, gang, placed)
    return problems


def _too_many_blocks(
    checked: CheckedWorkflow, site: Site, gang: Gang, placed: Mapping[str, StagePlan]
) -> Iterator[Problem]:
    """Gangs that need too many blocks: each shape has its own, and all must run at the same time."""
    tasks: Counter[Shape] = Counter()
    for name in gang.stages:
        tasks[placed[name].shape] += _at_once(checked, gang, name) or 1
    for pool in sorted({shape.pool for shape in tasks}):
        there = site.pools[pool]
        here = [shape for shape in tasks if shape.pool == pool]
        needed = sum(ceil(tasks[shape] / shape.slots(there)) for shape in here)
        if needed > there.blocks:
            labels = ", ".join(f"{tasks[shape]} of {shape.label}" for shape in here)
            message = f"these stages run at the same time and need {needed} blocks (tasks: {labels}), but "
            message += f"pool '{pool}' of site '{site.name}' may have {there.blocks}"
            hint = "give them the same resources, put one into another pool, or raise the pool's `blocks`"
            yield checked.document.problem(_key(checked, gang), message, hint)


def _at_once(checked: CheckedWorkflow, gang: Gang, name: str) -> int | None:
    """Return how many tasks of a stage must run at the same time; None if only the run will show it."""
    if name in gang.in_waves:
        return 1
    own = [checked.counts[axis] for axis in checked.workflow.stages[name].over if axis not in gang.axes]
    return None if None in own else prod(count or 0 for count in own)


def _tasks(count: int | None) -> str:
    return "tasks" if count is None else counted(count, "task")


def _key(checked: CheckedWorkflow, gang: Gang) -> Key:
    for name in reversed(gang.stages):
        if checked.workflow.stages[name].beside:
            return ("stages", name, "beside")
        for edge in checked.graph.into(name):
            if edge.stream:
                return edge.key
    return ("stages", gang.stages[-1])
