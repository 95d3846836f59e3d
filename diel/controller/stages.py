"""The stages of a running workflow: opened once their axes are known, linked along their edges."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from diel.base.errors import DielError, UsageError
from diel.base.paths import RunPaths
from diel.base.states import FINAL, FailureClass
from diel.controller.gangs.service import ServiceManager
from diel.controller.search.decider import Decider, DeciderContext, LoopDecider
from diel.controller.search.search import SearchDecider
from diel.planning.check.launcher import words_of
from diel.planning.plan import Plan
from diel.site.demand import Demand
from diel.site.shape import Ask
from diel.store.artifacts import Artifact, differences, text_of
from diel.store.journal import records
from diel.store.project.cache import pruned_key
from diel.store.project.run_file import RunFile
from diel.tasks.artifact_gc import ArtifactCollector
from diel.tasks.ledger import Ledger
from diel.tasks.link import Link
from diel.tasks.points.adaptive import Adaptive, PointState, adaptive_axes
from diel.tasks.points.domain import Origins, make_domain
from diel.tasks.publisher import Publisher
from diel.tasks.recipe import Recipe, environment_part, environments_of_stage, family_parts, work_of
from diel.tasks.results import Results, output_of, outputs_of
from diel.tasks.sources import Scope, Sources, link_of
from diel.tasks.stage_run import StageRun
from diel.tasks.stream import ends_of
from diel.tasks.surrogate import name_teachers
from diel.tasks.texts import Watch
from diel.worker.attempt.bundle import Work
from diel.workflow.expressions import ExpressionError
from diel.workflow.graph import hyperparameter_reads
from diel.workflow.models import Axis, Workflow
from diel.workflow.models.forms.axis import Points, bare, clashes, keep, read_kept
from diel.workflow.models.forms.rows import DerivedAxis, read_points, rows_to_points

_DECIDERS: dict[str, Callable[[Any, Iterable[Adaptive], DeciderContext], Decider]] = {
    "search": SearchDecider,
    "loop": LoopDecider,
}
"""What makes the points of an axis, by the key of its form."""


class Stages:
    """All stages of one run, and how their tasks wait for each other."""

    def __init__(self, plan: Plan, run_file: RunFile, ledger: Ledger) -> None:
        self._plan = plan
        self._ledger, self._grown = ledger, run_file.grown
        self._watching_ends: list[Callable[[StageRun, int], None]] = []
        opened = {name for name, stage in ledger.history.stages.items() if stage.parts}
        self._axes = Axes(plan.workflow, run_file.folder, ledger.paths, opened)
        self.runs: dict[str, StageRun] = {
            name: StageRun(
                name,
                plan.workflow.stages[name],
                ledger.history.stage(name),
                plan.graph.depth[name],
                units_read=partial(plan.workflow.units_read, name),
            )
            for name in plan.graph.order
        }
        self.adaptive = adaptive_axes(plan.workflow, ledger.history) if plan.workflow.adaptive else {}
        for stage in self.runs.values():
            stage.adaptive = tuple(
                self.adaptive[label] for label in stage.spec.over if label in self.adaptive
            )
        self.are_others = False
        """Whether a result that was made again is another than before: what rests on it must be found."""
        self.into: dict[str, list[Link]] = {name: [] for name in self.runs}
        self.out_of: dict[str, list[Link]] = {name: [] for name in self.runs}
        for edge in plan.graph.edges:
            up, down = self.runs[edge.upstream], self.runs[edge.downstream]
            axes = (plan.workflow.axes[label] for label in up.spec.over)
            makers = tuple(self.runs[axis.maker] for axis in axes if axis.maker is not None)
            link = link_of(edge, up, down, self.adaptive, makers)
            self.into[edge.downstream].append(link)
            self.out_of[edge.upstream].append(link)
        self._links = [link for links in self.into.values() for link in links]
        uses = plan.workflow.any_stage
        joined = uses(lambda stage: stage.joined)
        self.streams = self.together = ends_of(plan.graph, self.into, self.out_of) if joined else {}
        """By stage, what its tasks put and get while they run; only for stages that run together."""
        self._watch = Watch(ledger.paths, records=True)
        self.recipes = {name: self._recipe(stage, run_file) for name, stage in self.runs.items()}
        self._work: dict[str, tuple[Ask | None, Work]] = {}
        for name, stage in self.runs.items():
            if stage.spec.demand:
                stage.demand = self._asking(name)
        served = uses(lambda stage: stage.service is not None)
        self.serving = ServiceManager(plan, ledger, self.runs, self.into, self.recipes) if served else None
        """What is up while others ask it."""
        published = uses(lambda stage: stage.publishes)
        self._publishing = Publisher(plan.workflow, run_file, ledger) if published else None
        loose = uses(lambda stage: not all(output.keep for output in stage.outputs.values()))
        self._keeping = ArtifactCollector(self.runs, self._links, ledger) if loose else None
        for feature in (self.serving, self._publishing, self._keeping):
            if feature is not None:
                self.watch_ends(feature.note_end)
        tell = (self._wake, self.note_end, self._keep_pruned, self._leave_out, self._is_used)
        deciding = DeciderContext(self.runs, ledger, plan.workflow, run_file.hyperparameters, *tell)
        self.deciders: dict[str, Decider] = {
            label: _DECIDERS[axis.axis.word](
                axis,
                [self.adaptive[feature] for feature in axis.judge.context if feature in self.adaptive],
                deciding,
            )
            for label, axis in self.adaptive.items()
            if axis.judged
        }
        """What makes the points of searches and loops."""
        self.deepest_first = sorted(
            self.runs.values(), key=lambda stage: (stage.spec.service is None, -stage.depth)
        )
        """Later stages first, so that samples flow through; what is asked before what does not need it."""

    def _recipe(self, stage: StageRun, run_file: RunFile) -> Recipe:
        into, module = self.into[stage.name], self._plan.modules.get(stage.name)
        hyperparameters, folder = run_file.hyperparameters, run_file.folder
        document, paths = self._plan.checked.document, self._ledger.paths
        wrote = {label: document.home(("stages", stage.name, "files", label)) for label in stage.spec.files}
        homes = {label: home for label, home in wrote.items() if home is not None}
        sources = Sources(
            stage, into, self._ledger.results, hyperparameters, folder, paths, self._watch, homes
        )
        parts = family_parts(stage.spec, module, sources.files.static, stage.name)
        if stage.spec.environment is not None:
            parts |= environment_part(stage.spec, self._ledger.paths)
        return Recipe(sources, module, parts, self.streams.get(stage.name))

    def _asking(self, name: str) -> Callable[[int, int], Ask]:
        """Return what a task asks for, by its index and the number of its attempt. It raises Misfit."""
        demand = Demand(self._plan.checked.document, self._plan.site, name, words_of)
        sources = self.recipes[name].sources
        return lambda index, attempt: demand.of(Scope(sources, index, attempt=attempt))

    def _made_work(self, name: str, ask: Ask | None) -> Work:
        if ask is None:
            planned = self._plan.stages[name]
            ask = Ask(self.runs[name].spec, planned.shape, planned.cores, planned.launcher)
        stage, module, site = ask.spec, self._plan.modules.get(name), self._plan.site
        inner = environments_of_stage(stage, self._ledger.paths) if stage.environment is not None else None
        work = work_of(name, stage, module, ask.launcher, ask.shape, site, inner)
        sources = self.recipes[name].sources
        work = work._replace(conversions=sources.conversions or None, columns=sources.columns or None)
        return work._replace(watched=sources.files.watched_by_all(module))

    def work_of(self, stage: StageRun, index: int) -> Work:
        """Return what a worker must know of a stage, with what one of its tasks asks for."""
        ask = stage.ask_of(index)
        memo = self._work.get(stage.name)
        if memo is None or memo[0] is not ask:
            memo = self._work[stage.name] = ask, self._made_work(stage.name, ask)
        return memo[1]

    @property
    def complete(self) -> bool:
        return all(stage.complete for stage in self.runs.values())

    def open(self) -> None:
        """Open every stage whose axes are known at the start. Raise UsageError for unreadable ones."""
        self._axes.open_static()
        for label, axis in self.adaptive.items():
            known = axis.history.facts
            if (
                known is None or known.size != axis.size
            ):  # for those who show searches and loops without the workflow
                facts = asdict(axis.facts(self._plan.workflow))
                self._ledger.append({"event": "axis", "axis": label, "facts": facts})
        self._open_known()
        if self._keeping is not None:
            self._keeping.catch_up()
        self.begin()

    def begin(self) -> None:
        """Begin searches and loops in all contexts that exist by now; one can make room for another."""
        for decider in self.deciders.values():
            decider.begin()

    def tend(self) -> None:
        for decider in self.deciders.values():
            decider.tend()

    def _wake(self, label: str, coordinates: Mapping[str, int]) -> None:
        """Look again at tasks that wait for points of an axis: those at them, those that pick among them."""
        for stage in self.runs.values():
            if label in stage.spec.over:
                stage.look_at(stage.domain.matching(coordinates))
        over = label not in coordinates  # what is read from outside an axis is known when the axis is over
        for link in self._links if over else ():
            if link.awaits(label):
                link.down.look_at_all()
        if over:
            self._open_known()
        for decider in self.deciders.values():
            if label in decider.axis.judge.context:
                decider.begin()

    def _is_used(self, label: str, coordinates: Mapping[str, int]) -> bool:
        """Return whether a task that picks among the points of an axis has a result at some coordinates."""
        return any(label in link.edge.chosen and link.down.has_result(coordinates) for link in self._links)

    def _keep_pruned(self, stage: StageRun, index: int, metric: str, reported: Mapping[int, float]) -> None:
        """Keep what a task reported of a metric before it was pruned, for later runs."""
        try:
            key = self.recipes[stage.name].resolve(index).key
        except (DielError, ExpressionError):  # a file that it reads is gone: nobody will ask for it
            return
        values = [[step, value] for step, value in reported.items()]
        task: records.PrunedRecord = {
            "event": "pruned",
            "stage": stage.name,
            "index": index,
            "key": pruned_key(key, metric),
            "metric": metric,
            "reported": values,
        }
        self._ledger.append(task)

    def _leave_out(self, stage: StageRun, indices: Iterable[int]) -> None:
        """Leave out tasks of a pruned trial that had ended: when they did must decide nothing."""
        for index in indices:
            for link in self.out_of[stage.name]:
                link.leave_out(index)
            self.take_back(stage, index)

    def take_back(self, stage: StageRun, index: int) -> None:
        """Take its result from a task of a pruned trial that ended before it was stopped."""
        if stage.history.is_good(index):
            attempt = stage.history.result_attempt(index)
            self._ledger.append({"event": "gone", "stage": stage.name, "tasks": [[index, attempt]]})
        stage.omitted.add(index)
        self._ledger.skip(stage, [[index, index]], "axis", "")

    def watch_ends(self, tell: Callable[[StageRun, int], None]) -> None:
        """Call this for each task that ends for good, once it is counted along its edges."""
        self._watching_ends.append(tell)

    def note_end(self, stage: StageRun, index: int) -> None:
        """Look at those that wait for a task that ended: they can run now, or never."""
        stage.ended += 1
        stage.asks.pop(index, None)
        for link in self.out_of[stage.name]:
            link.count(index)
            if link.down.known:
                link.down.look_at(link.woken_by(index))
        for tell in self._watching_ends:
            tell(stage, index)
        for axis in stage.adaptive:
            if axis.judged:
                self.deciders[axis.label].note_end(stage, index)
        if stage.complete:
            self._wake_empty_groups(stage)
            self._open_known()
            self.begin()

    def _wake_empty_groups(self, stage: StageRun) -> None:
        """Look at tasks that wait for missing combinations of points: no end of a task wakes them."""
        if stage.size and all(factor.rows is None for factor in stage.domain.factors):
            return
        for link in self.out_of[stage.name]:
            link.down.look_at_all()

    def _open_known(self) -> None:
        """Open the stages whose axes have become known; one can make another's axis known."""
        opened = True
        while opened:
            opened = False
            for stage in self.runs.values():
                if not stage.known and not stage.void and self._know_axes(stage):
                    self._open_stage(stage)
                    opened = True

    def _know_axes(self, stage: StageRun) -> bool:
        """Return whether all axes of a stage are known, deriving those that can be; can make it void."""
        for label in stage.spec.over:
            if label in self._axes.points:
                continue
            maker = self.runs[self._plan.workflow.axes[label].maker or ""]
            if not maker.settled or self.are_others:
                return False
            lost = maker.void or any(maker.has_lost(index) for index in range(maker.size))
            alongside = maker.spec.over and set(maker.spec.over) <= set(stage.spec.over)
            if maker.void or (lost and not alongside):
                self._make_void(stage, f"'{maker.name}' did not make the axis '{label}'")
                return False
            try:
                self._axes.open_derived(label, maker, self._ledger.results)
            except UsageError as error:
                self._make_void(stage, str(error))
                return False
        brought = {label: self._axes.points[label].parameters for label in stage.spec.over}
        for _, message in clashes(brought, self.runs):
            self._make_void(stage, f"{message}; rename one of them")
            return False
        return True

    def _make_void(self, stage: StageRun, reason: str) -> None:
        """Mark a stage whose tasks will never be known; all that waits for it looks again."""
        stage.void = True
        kind = self._plan.stages[stage.name].kind
        self._ledger.append({"event": "stage", "stage": stage.name, "kind": kind, "total": 0, "void": reason})
        for link in self.out_of[stage.name]:
            link.down.look_at_all()
        if self.serving is not None:
            self.serving.note_open(stage)

    def _open_stage(self, stage: StageRun) -> None:
        points = {label: self._axes.points[label] for label in stage.spec.over}
        counts = {label: len(axis_points) for label, axis_points in points.items()}
        stage.points = points
        origins, replicas = self._axes.origins, stage.spec.replicas
        stage.domain = make_domain(stage.spec.over, counts, origins, replicas, self._grown)
        recipe = self.recipes[stage.name]
        record: records.StageRecord = {
            "event": "stage",
            "stage": stage.name,
            "kind": self._plan.stages[stage.name].kind,
            "total": stage.size,
            "family": recipe.family,
            "parts": recipe.family_parts,
            "reads": sorted(hyperparameter_reads(stage.name, stage.spec)),
        }
        for label, axis_points in points.items():
            for name, (cell, value) in axis_points.lost.items():
                record["remark"] = (
                    f"axis '{label}': {name}: {cell} is read as {value}; columns: {{{name}: str}} keeps it"
                )
        if stage.adaptive:
            record["factors"] = [asdict(factor) for factor in stage.domain.factors]
        if stage.spec.asks:
            name_teachers(
                record, self._plan.graph, {n: planned.kind for n, planned in self._plan.stages.items()}
            )
        self._ledger.append(record)
        for link in self.out_of[stage.name]:
            link.resolve()
            if link.alongside:
                link.down.look_at_all()
        if self.serving is not None:
            self.serving.note_open(stage)
        self._count_ended(stage)
        if self._axes.was_made_by(stage.name):
            self._keep_losses(stage)
        if stage.adaptive or all(
            link.alongside or link.edge.branch or link.up.ended or link.up.complete
            for link in self.into[stage.name]
        ):
            stage.look_at_all()
        if stage.complete:
            self._wake_empty_groups(stage)

    def _keep_losses(self, stage: StageRun) -> None:
        """Keep failures final that came before an axis was made: a success would add points to it."""
        for index in range(stage.size):
            if index in stage.history.gone:
                continue  # it had a result then: the same one is made again
            open_ = stage.standing(index) is PointState.OPEN
            if open_ and not stage.history.state(index).ended and self._is_wanted(stage, index):
                message = (
                    "it had failed when an axis was made of this stage's results, which holds "
                    f"{FINAL} tries it again, and takes what is done from the cache"
                )
                self._ledger.fail(stage, index, {"class": FailureClass.UPSTREAM, "message": message})
                self.note_end(stage, index)

    def _is_wanted(self, stage: StageRun, index: int) -> bool:
        try:
            return self.recipes[stage.name].is_wanted(index)
        except (DielError, LookupError):
            return True  # what its condition reads was lost too

    def _count_ended(self, stage: StageRun) -> None:
        """Count what an earlier controller's journal says about the tasks."""
        states = stage.history.states
        states.extend(bytes(max(0, stage.size - len(states))))
        if not any(states):
            return
        for index in range(stage.size):
            if stage.history.state(index).ended:
                stage.ended += 1
                for link in self.out_of[stage.name]:
                    link.count(index)
        if self._keeping is not None:
            self._keeping.note_open(stage)
        if self._publishing is not None:
            self._publishing.catch_up(stage)


class Axes:
    """The points of a run's axes, and where those of derived axes were made."""

    def __init__(
        self, workflow: Workflow, folder: Path, paths: RunPaths, opened: Collection[str] = ()
    ) -> None:
        """Open no axis yet. `opened` names the stages whose tasks an earlier controller knew."""
        self._workflow = workflow
        self._folder = folder
        self._paths = paths
        self._opened = opened
        self.points: dict[str, Points] = {}
        self.origins: dict[str, Origins] = {}

    def open_static(self) -> None:
        """Open every axis that a stage runs over, except derived ones. Raise UsageError."""
        used = {label for stage in self._workflow.stages.values() for label in stage.over}
        for label in self._workflow.axes:
            if label in used and self._workflow.axes[label].maker is None:
                self.points[label] = self._static(label, self._workflow.axes[label])

    def _static(self, label: str, axis: Axis) -> Points:
        registry = self._workflow.hyperparameters
        if not axis.is_kept:
            return axis.points_of(label, registry, self._folder)
        path = self._paths.axis(label)
        points = read_kept(path)
        if points is None:
            if any(label in self._workflow.stages[name].over for name in self._opened):
                raise UsageError(
                    f"axis '{label}': the points that this run was made with are gone ({path}); put the file "
                    "back, or start again with `diel run`, which takes from the cache what has not changed"
                )
            keep(axis.points_of(label, registry, self._folder), path)
            points = read_kept(path)
        assert points is not None
        return points

    def was_made_by(self, maker: str) -> bool:
        """Return whether an earlier controller of the run took an axis from a stage's results."""
        labels = (label for label, axis in self._workflow.axes.items() if axis.maker == maker)
        return any(self._paths.axis(label).exists() for label in labels)

    def open_derived(self, label: str, maker: StageRun, results: Results) -> None:
        """Take a derived axis from its maker's results. Raise UsageError where they are no points."""
        axis = self._workflow.axes[label]
        assert isinstance(axis, DerivedAxis)
        rows: list[tuple[Any, ...]] = []
        origins: list[tuple[int, ...]] = []
        names: tuple[str, ...] | None = None
        parts = self._parts(label, axis, maker, results)
        if kinds := _mixed(parts.values()):
            axis = replace(axis, types={**axis.types, **kinds})
            parts = self._parts(label, axis, maker, results)
        for index, part in parts.items():
            if len(part) and names is not None and part.parameters != names:
                raise UsageError(
                    f"axis '{label}': {maker.name}/{index} gives {', '.join(part.parameters)}, "
                    f"other tasks gave {', '.join(names)}"
                )
            names = part.parameters if len(part) or names is None else names
            rows += map(part.values, range(len(part)))
            origins += [tuple(maker.domain.coordinates(index).values())] * len(part)
        lost = {name: loss for part in parts.values() for name, loss in part.lost.items()}
        points = replace(Points.of_rows(names or axis.gives or (bare(label),), rows), lost=lost)
        keep(points, self._paths.axis(label))
        self.points[label] = points
        axes = tuple(maker.domain.coordinates(0)) if maker.size else maker.domain.axes
        if maker.domain.axes:
            self.origins[label] = Origins(axes, origins)

    def _parts(self, label: str, axis: DerivedAxis, maker: StageRun, results: Results) -> dict[int, Points]:
        """Return the points that each task made."""
        output = axis.output.rpartition(".")[2]
        good = (index for index in range(maker.size) if maker.history.state(index).good)
        return {
            index: self._read(label, axis, f"{maker.name}/{index}", results.record(maker.name, index), output)
            for index in good
        }

    def _read(self, label: str, axis: DerivedAxis, task: str, record: records.Made, output: str) -> Points:
        try:
            value = output_of(record, output, self._paths.root)
        except KeyError:
            names = ", ".join(outputs_of(record)) or "nothing"
            raise UsageError(f"axis '{label}': {task} made no '{output}'; it made: {names}") from None
        if isinstance(value, Artifact):
            if changes := differences(value, value.digest, value.identity):
                raise UsageError(f"axis '{label}': {task}.{output} ({value}): {text_of(changes)}")
            return read_points(Path(value), label, axis.gives, value.inside, axis.types)
        if not isinstance(value, list):
            raise UsageError(
                f"axis '{label}': {task}.{output} is {value!r}; expected a list, or a CSV or JSONL file"
            )
        return rows_to_points(value, label, axis.gives, f"{task}.{output}", axis.types)


def _mixed(parts: Iterable[Points]) -> dict[str, str]:
    """Return the columns whose cells have other types in one file than in another, with one for all."""
    columns: dict[str, list[Any]] = {}
    for points in parts:
        for name, column in zip(points.parameters if points.cells else (), points.columns, strict=False):
            columns.setdefault(name, []).extend(column)
    mixed = {name: column for name, column in columns.items() if len({*map(type, column)}) > 1}
    texts = {name for name in mixed if any(isinstance(v, str) or v != float(v) for v in mixed[name])}
    return {name: "str" if name in texts else "float" for name in mixed}
