"""A run read back from its directory: its workflow, the points of its axes, the results of its tasks.

Nothing here writes, asks a scheduler or needs the controller to live. The controller's links and recipes are
used as they are, so that what a task reads is what the controller gives it, and not a second account of it.
"""

import mmap
import os
import re
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TypeVar

from diel.base.errors import DielError, SpecError, UsageError, did_you_mean
from diel.base.form import NOT_AS_IT_SHOULD_BE
from diel.base.paths import RunPaths
from diel.base.states import RunState
from diel.base.values import task_text
from diel.base.version import __version__
from diel.observe.status.axis import AxisStatus, axes_of
from diel.observe.status.run import standing
from diel.store.artifacts import Artifact
from diel.store.journal.history import History
from diel.store.journal.records import Failed, Made, OfTask, Record, Result, Skipped
from diel.store.journal.segment import DamagedRecord, decode, segments
from diel.store.journal.snapshot import read_behind_flaws, read_run, told_damage
from diel.store.journal.stage_history import Attempt, StageHistory, covers
from diel.store.project.run_file import RunFile, read_kept_workflow, read_run_file
from diel.store.project.runs import all_runs
from diel.tasks.link import Link
from diel.tasks.points.adaptive import Adaptive, adaptive_axes
from diel.tasks.points.domain import UNKNOWN, Domain, Origins, make_domain
from diel.tasks.points.shared import shared
from diel.tasks.recipe import Recipe, family_parts
from diel.tasks.results import MissingInput, Results, carry, output_of
from diel.tasks.service import tie
from diel.tasks.sources import Sources, link_of
from diel.tasks.stage_run import StageRun
from diel.tasks.texts import Watch
from diel.worker.environments.prepared import PreparedEnvironment, read_prepared
from diel.workflow.graph import StageGraph, build
from diel.workflow.load import Document, load_text
from diel.workflow.load.document import fill_templates
from diel.workflow.models import Workflow
from diel.workflow.models.data import TemplateContent
from diel.workflow.models.forms.axis import Points, read_kept
from diel.workflow.models.forms.rows import DerivedAxis, read_points
from diel.workflow.modules.catalogue import Module, ModuleNotFound, again, find, search_path
from diel.workflow.modules.sources import newest

Found = TypeVar("Found")
MAX_RUNS = 50
"""How many earlier runs are searched for a task."""
_MANY = 50
"""Stages from which on lines are looked up by stage."""
_COMMITS = (b'"event":"done"', b'"event":"cached"')


class RunReader:
    """A run as its files show it. Each part is read on first use, and kept."""

    def __init__(self, paths: RunPaths, followed: History | None = None, *, careful: bool = False) -> None:
        """Read the run. A history that a reader follows is taken as it is, and the journal not folded again.
        With care each record is looked at, and what is damaged left out: `flaws` says what."""
        self.paths = paths
        self.flaws: Sequence[str] = ()
        """What is wrong with the journal. Without care, only lines that are no records."""
        self.careful = careful
        self._followed = followed
        self.points = cache(self._points)
        """The points of an axis, by its label; None if the run has not made them known."""
        self.domain = cache(self._domain)
        """The tasks of a stage, by its name; None if one of its axes is not known."""
        self.recipe = cache(self._recipe)
        """How the tasks of a stage get their parameters and inputs, by its name. Its digests of files and
        modules are not those of the run: these may have changed since."""
        self._results = _Lookup(self)
        self._earlier: list[RunReader] = []
        self._unread = islice(_earlier_runs(self), MAX_RUNS)
        self._origin = cache(self._find_origin)
        self._by_stage = cache(LinesByStage)
        self._lost: dict[str, dict[int, Attempt]] = {}
        self._state = RunState.PENDING

    @cached_property
    def run_file(self) -> RunFile:
        """Raises UsageError where the directory holds no run."""
        return read_run_file(self.paths)

    @cached_property
    def document(self) -> Document:
        """The workflow as it was when the run began. Raises DielError if it cannot be read."""
        try:
            text, run_file = read_kept_workflow(self.paths), self.run_file
            values, included = run_file.hyperparameters, run_file.included
            document = load_text(text, Path(run_file.source), lambda _: values, included)
            fillings = {name: TemplateContent(*parts) for name, parts in run_file.templates.items()}
            fill_templates(document.spec, fillings)
            run_file.apply(document.spec)
            return document
        except SpecError as error:
            first = error.problems[0]
            place = f"{self.paths.workflow}:{first.line}:{first.column}: {first.message}"
            why = "it was changed since" if self.run_file.diel == __version__ else "this is another diel"
            raise UsageError(f"{self.paths.run_id}: its workflow cannot be read ({why}): {place}") from error

    @property
    def workflow(self) -> Workflow:
        return self.document.spec

    @cached_property
    def graph(self) -> StageGraph:
        return build(self.workflow)[0]

    @cached_property
    def history(self) -> History:
        """Without a living controller nothing is under way: what was, waits again (see `lost`). Raises
        UsageError where the journal is in a form that this diel cannot read."""
        history = self._followed
        if history is None:
            reader = read_behind_flaws(self.paths) if self.careful else read_run(self.paths)
            self.flaws, history = told_damage(reader), reader.history
        driving = standing(self.paths, history)
        self._state = driving.state
        if not driving.alive and self._followed is None:
            for name, stage in history.stages.items():
                self._lost[name] = dict(stage.under_way)
                stage.let_go(verdicts=False)
        return history

    def _decoded(self, line: bytes) -> Record | None:
        record = decode(line)
        if record is None or not self.careful:
            return record
        from diel.store.journal.form import flaw_of  # types that a good journal does not need

        return None if flaw_of(record) else record

    def check_stage(self, name: str, more: str = "") -> None:
        """Raise UsageError with the nearest name where the workflow has no such stage."""
        stages = self.workflow.stages
        if name not in stages:
            hint = did_you_mean(name, stages) or f"stages: {', '.join(stages)}"
            raise UsageError(f"{self.paths.run_id} has no stage '{name}'; {more}{hint}")

    def is_dropped(self, stage: str, output: str, index: int) -> bool:
        """Return whether a task's artifact was deleted after use."""
        return index in self.history.stage(stage).dropped.get(output, ())

    @property
    def state(self) -> RunState:
        """The run's state; `interrupted` if it is not over and its controller is gone."""
        _ = self.history
        return self._state

    def lost(self, stage: str) -> Mapping[int, Attempt]:
        """Return the tasks of a stage that were under way when the controller went away."""
        _ = self.history
        return self._lost.get(stage, {})

    @cached_property
    def void(self) -> dict[str, str]:
        """The stages whose axes will never be known in this run, and why."""
        return {name: stage.void for name, stage in self.history.stages.items() if stage.void}

    @cached_property
    def adaptive(self) -> dict[str, Adaptive]:
        """The searches and loops that a stage runs over."""
        return adaptive_axes(self.workflow, self.history)

    @cached_property
    def environments(self) -> dict[str, PreparedEnvironment]:
        """The environments of its stages, as they were made for the run."""
        return read_prepared(self.paths.environments)

    def environment(self, stage: str) -> PreparedEnvironment | None:
        """Return the environment of a stage's tasks; None without one."""
        return self.environments.get(self.workflow.stages[stage].environment or "")

    def _points(self, label: str) -> Points | None:
        axis = self.workflow.axes.get(label)
        if axis is None:  # that of replicas
            return Points.counted(label, max(stage.replicas for stage in self.workflow.stages.values()))
        if axis.is_kept:
            return read_kept(self.paths.axis(label))
        return axis.points_of(label, self.workflow.hyperparameters, self.run_file.folder)

    def _domain(self, stage: str) -> Domain | None:
        over = self.workflow.stages[stage].over
        counts = {label: len(points) for label in over if (points := self.points(label)) is not None}
        if len(counts) < len(over):
            return None
        origins = {label: origin for label in over if (origin := self._origin(label)) is not None}
        return make_domain(over, counts, origins, self.workflow.stages[stage].replicas, self.run_file.grown)

    def _find_origin(self, label: str) -> Origins | None:
        """Return where the points of a derived axis were made; None where its maker has no axes."""
        axis, points = self.workflow.axes[label], self.points(label)
        if not isinstance(axis, DerivedAxis) or points is None:
            return None
        maker, _, output = axis.output.rpartition(".")
        domain = self.domain(maker)
        if domain is None or not domain.axes:
            return None
        rows: list[tuple[int, ...]] = []
        for index, record in sorted(self.records(maker).items()):
            value = output_of(record, output, self.paths.root)
            if type(value) is Artifact:
                value = read_points(Path(value), label, axis.gives, value.inside, axis.types)
            rows += [tuple(domain.coordinates(index).values())] * len(value)
        if len(rows) != len(points):
            wrong = f"the points of axis '{label}' are not those that {maker} made"
            raise DielError(f"{self.paths.run_id}: {wrong}")
        return Origins(tuple(domain.coordinates(0)), rows)

    def point(self, stage: str, index: int) -> dict[str, Any]:
        """Return the value of each axis parameter of a task."""
        return self.point_at(self.place(stage, index))

    def place(self, stage: str, index: int) -> dict[str, int]:
        """Return the coordinates of a task: the number of its point on each axis."""
        domain = self.domain(stage)
        return {} if domain is None else domain.coordinates(index)

    def point_at(self, place: Mapping[str, int]) -> dict[str, Any]:
        """Return the value of each axis parameter at some coordinates."""
        values: dict[str, Any] = {}
        for axis, number in place.items():
            points = self.points(axis)
            if points is not None:
                values.update(zip(points.parameters, points.values(number), strict=True))
        return values

    def named(self, task: str) -> str:
        """Return a task (`simulate/33`) for people: `simulate/33 (depth=2.5, seed=1)`."""
        stage, _, index = task.partition("/")
        return task_text(task, self.point(stage, int(index)))

    def shared(self, stage: str, tasks: Sequence[int]) -> str:
        """Return what tasks of a stage share: `all 4 with depth=2.5`; empty if nothing."""
        domain, over = self.domain(stage), self.workflow.stages[stage].over
        points = {label: axis_points for label in over if (axis_points := self.points(label)) is not None}
        return shared(domain, points, tasks) if domain is not None else ""

    def hyperparameters(self, stage: str, index: int) -> dict[str, Any]:
        """Return what searches have set for a task, by name; empty if its stage runs over none."""
        domain = self.domain(stage)
        searches = self._searches(stage) if domain is not None else []
        place = domain.coordinates(index) if domain is not None and searches else {}
        return {name: value for axis in searches for name, value in axis.hyperparameters(place).items()}

    def setting(self, stage: str, index: int) -> dict[str, Any]:
        """Return the value of each axis parameter of a task, and as `hp.NAME` what searches set for it."""
        hp = self.hyperparameters(stage, index)
        return self.point(stage, index) | {f"hp.{name}": value for name, value in hp.items()}

    def setting_names(self, stage: str) -> list[str]:
        """Return the names in the settings of a stage's tasks, in their order."""
        return [*self.parameters(stage), *(f"hp.{name}" for name in self.searched(stage))]

    def _searches(self, stage: str) -> list[Adaptive]:
        over = self.workflow.stages[stage].over
        return [axis for label in over if (axis := self.adaptive.get(label)) and axis.axis.sets]

    def searched(self, stage: str) -> list[str]:
        """Return the hyperparameters that searches set for a stage's tasks."""
        return list(dict.fromkeys(name for axis in self._searches(stage) for name in axis.axis.sets))

    def parameters(self, stage: str) -> list[str]:
        """Return the axis parameters of a stage, in the order of its axes; none of an axis not known."""
        axes = (self.points(label) for label in self.workflow.stages[stage].over)
        return [name for points in axes if points is not None for name in points.parameters]

    def events(self, *needles: bytes, stage: str = "", every: int = 1) -> Iterator[tuple[str, Record]]:
        """Yield the records whose lines hold all these bytes, with their segments; one of `every` so many.

        With a stage, those that name it.

        Lines are ruled out before they are decoded, by the last bytes first: that is what makes a long
        journal quick, so the last ones are best those that few lines hold.
        """
        met = 0
        for name in segments(self.paths.journal):
            for line in self._lines(name, needles, stage):
                if all(needle in line for needle in needles):
                    met += 1
                    record = self._decoded(line) if met % every == 0 else None
                    if record is not None:
                        yield name, record

    def _lines(self, segment: str, needles: Sequence[bytes], stage: str) -> Iterator[bytes]:
        """Return lines of a segment, among them all that name this stage and hold these bytes."""
        path, name = self.paths.journal / segment, b'"stage":"%s"' % stage.encode()
        if stage and len(self.history.stages) > _MANY:
            return self._by_stage(path).of(stage)
        lines = lines_with(path, needles[-1] if needles else name)
        return (line for line in lines if name in line) if stage else lines

    def records(self, stage: str) -> dict[int, Made]:
        """Return what the tasks of a stage made, by index: values, artifacts, and the run they are from."""
        records: dict[int, Made] = {}
        for record in self.results(stage):
            records[record["index"]] = {}
            carry(record, records[record["index"]])
        return records

    def records_of_tasks(self, indices: Mapping[str, Collection[int]]) -> dict[str, dict[int, Made]]:
        """Return what these tasks made, by stage and index. Other lines of a long journal are not decoded."""
        records: dict[str, dict[int, Made]] = {stage: {} for stage in indices}
        beginning = results_of((stage, index) for stage in indices for index in indices[stage])
        for name in segments(self.paths.journal):
            for line in lines_of(self.paths.journal / name, beginning):
                record = self._decoded(line)
                if record is not None and (record["event"] == "done" or record["event"] == "cached"):
                    stage = record["stage"]
                    if self.history.stage(stage).takes(record):
                        records[stage][record["index"]] = {}
                        carry(record, records[stage][record["index"]])
        return records

    def results(self, stage: str, having: bytes = b"") -> Iterator[Result]:
        """Yield a stage's committed results whose lines hold these bytes. Of a task the last counts."""
        history = self.history.stage(stage)
        for name in segments(self.paths.journal):
            for line in self._lines(name, [having] if having else [], stage):
                if having in line and any(event in line for event in _COMMITS):
                    record = self._decoded(line)
                    result = None if record is None else _result(record, stage, history)
                    if result is not None:
                        yield result

    def damaged(self, stage: str, present: int) -> int:
        """Return how many results of a stage have no line, if so many have: a snapshot knows of them."""
        counts = self.history.stage(stage).counts()
        return max(0, counts["done"] + counts["cached"] - present)

    def record(self, stage: str, index: int) -> Result | None:
        """Return the committed result of one task; None if it has none."""
        result = None
        history = self.history.stage(stage)
        for _, record in self.attempts(stage, index):
            result = _result(record, stage, history) or result
        return result

    def attempts(self, stage: str, index: int) -> Iterator[tuple[str, OfTask]]:
        """Yield the records about one task, with their segments."""
        for segment, record in self.events(b'"index":%d' % index, stage=stage):
            match record["event"]:
                case "start" | "fail" | "done" | "cached" | "service" | "staging":
                    if (record["stage"], record["index"]) == (stage, index):
                        yield segment, record

    def failed(self, stage: str, index: int | None = None) -> Iterator[Failed]:
        """Yield the controller's verdicts on failed tasks of a stage, or on one of them, in their order."""
        for _, record in self.events(b'"event":"failed"', stage=stage):
            if record["event"] == "failed" and record["stage"] == stage and covers(record["tasks"], index):
                yield record

    def skipped(self, stage: str, index: int | None = None) -> Iterator[Skipped]:
        """Yield the same on tasks that are not run."""
        for _, record in self.events(b'"event":"skipped"', stage=stage):
            if record["event"] == "skipped" and record["stage"] == stage and covers(record["tasks"], index):
                yield record

    def earlier(self) -> "Iterator[RunReader]":
        """Yield the runs of the same workflow that were made before, the nearest first; each is read once."""
        yield from self._earlier
        for old in self._unread:
            self._earlier.append(old)
            yield old

    @cached_property
    def _watch(self) -> Watch:
        return Watch(self.paths, records=False)

    @cached_property
    def stages(self) -> dict[str, StageRun]:
        """The stages as the controller would hold them; `known` only if all their axes are."""
        return {name: self._stage(name) for name in self.workflow.stages}

    def _stage(self, name: str) -> StageRun:
        spec = self.workflow.stages[name]
        points = {label: its for label in spec.over if (its := self.points(label)) is not None}
        domain = self.domain(name) if len(points) == len(spec.over) else None
        history = self.history.stage(name)
        return StageRun(
            name,
            spec,
            history,
            self.graph.depth[name],
            domain or UNKNOWN,
            points,
            partial(self.workflow.units_read, name),
            adaptive=tuple(self.adaptive[label] for label in spec.over if label in self.adaptive),
            void=name in self.void,
            omitted={index for index, reason in enumerate(history.left_out) if reason},
        )

    @cached_property
    def axes(self) -> tuple[AxisStatus, ...]:
        """The state of the searches and loops."""
        driven = self.state is RunState.RUNNING
        return axes_of(self.paths, self.history, time.time(), driven=driven)

    @cached_property
    def links(self) -> list[Link]:
        """One link an edge; those whose upstream axes are not known yet pick nothing."""
        stages, adaptive = self.stages, self.adaptive
        edges = self.graph.edges
        links = [link_of(edge, stages[edge.upstream], stages[edge.downstream], adaptive) for edge in edges]
        for link in links:
            if link.up.known:
                link.resolve()
        tie(links, lambda stage, index: self.recipe(stage).resolve(index))
        return links

    def into(self, stage: str) -> list[Link]:
        """Return the links that a stage waits for."""
        return [link for link in self.links if link.edge.downstream == stage]

    def _recipe(self, stage: str) -> Recipe:
        held, folder, paths = self.stages[stage], self.run_file.folder, self.paths
        surroundings = (self._results, self.run_file.hyperparameters, folder, paths, self._watch)
        sources, module = Sources(held, self.into(stage), *surroundings), self.module(stage)
        # Without the files, whose content would be read for a digest that nobody asks for.
        return Recipe(sources, module, family_parts(held.spec, module, (), stage))

    def module(self, stage: str) -> Module | None:
        """Return the module of a stage as the run keeps it, else as it is now; None if there is none."""
        reference, run_file = self.workflow.stages[stage].module, self.run_file
        sources = newest(self.paths.sources)
        try:
            if sources is not None and stage in sources.modules:
                return again(sources.modules[stage], sources)
            path = search_path(run_file.folder, Path(run_file.cwd))
            home = self.document.home(("stages", stage, "module"))
            path = path if home is None else (home / "modules", *path)
            return None if reference is None else find(reference, path)
        except (ModuleNotFound, OSError):
            return None

    def unknown_axes(self, stage: str) -> list[tuple[str, str]]:
        """Return the axes of a stage that are not known yet, with the stage that makes each."""
        axes, over = self.workflow.axes, self.workflow.stages[stage].over
        return [(label, axes[label].maker or "") for label in over if self.points(label) is None]


def read(paths: RunPaths, ask: Callable[[RunReader], Found]) -> tuple[Found, Sequence[str]]:
    """Return an answer of a run, and what of its journal is damaged: it is given without that."""
    try:
        run = RunReader(paths)
        return ask(run), run.flaws
    except (DamagedRecord, *NOT_AS_IT_SHOULD_BE):
        run = RunReader(paths, careful=True)
        return ask(run), run.flaws


def _result(record: Record, stage: str, history: StageHistory) -> Result | None:
    if record["event"] == "done" or record["event"] == "cached":
        return record if record["stage"] == stage and history.takes(record) else None
    return None


_STAGE = re.compile(rb'"stage":"([^"\\]*)"')


def lines_with(path: Path, needle: bytes) -> Iterator[bytes]:
    """Yield the lines of a file that hold these bytes."""
    with _mapped(path) as data:
        at = data.find(needle)
        while at >= 0:
            end = data.find(b"\n", at)
            if end < 0:
                return  # a line that is not whole yet
            yield data[data.rfind(b"\n", 0, at) + 1 : end]
            at = data.find(needle, end)


def results_of(places: Iterable[tuple[str, int]]) -> re.Pattern[bytes]:
    """Return how the results of these tasks begin, each a stage and an index."""
    names = sorted(b'%s","index":%d' % (stage.encode(), index) for stage, index in places)
    return re.compile(rb'\{"event":"(?:done|cached)","stage":"' + _any_word(names) + b",")


def _any_word(words: Sequence[bytes]) -> bytes:
    """Return a pattern of sorted words that is tried letter by letter: of thousands, not each is tried."""
    ways = [
        re.escape(letter) + _any_word([word[1:] for word in these]) if letter else b""
        for letter, these in groupby(words, lambda word: word[:1])
    ]
    return ways[0] if len(ways) == 1 else b"(?:%s)" % b"|".join(ways)


def lines_of(path: Path, pattern: re.Pattern[bytes]) -> Iterator[bytes]:
    """Yield the whole lines of a file that begin so."""
    with _mapped(path) as data:
        for met in pattern.finditer(data):
            at, end = met.start(), data.find(b"\n", met.end())
            if end >= 0 and (at == 0 or data[at - 1 : at] == b"\n"):
                yield data[at:end]


class LinesByStage:
    """Where the lines of a file are that name a stage: for many stages, as each would look at all lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        """Bytes that were looked at; the file may have grown since."""
        self._places: dict[bytes, array[int]] = {}
        """Where each line begins and ends, by stage."""

    def of(self, stage: str) -> Iterator[bytes]:
        if self._path.stat().st_size > self._read:
            self._look()
        places = self._places.get(stage.encode(), ())
        if places:
            with _mapped(self._path) as data:
                for at, end in zip(places[::2], places[1::2], strict=True):
                    yield data[at:end]

    def _look(self) -> None:
        with open(self._path, "rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # it is not whole yet
                at, self._read = self._read, self._read + len(line)
                for stage in set(_STAGE.findall(line)):
                    self._places.setdefault(stage, array("q")).extend((at, self._read - 1))


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            yield b""  # nothing to map
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def _earlier_runs(run: RunReader) -> Iterator[RunReader]:
    mine = run.run_file
    for paths in reversed(all_runs(run.paths.root.parent)):
        old = RunReader(paths)
        try:
            same = old.run_file.workflow == mine.workflow and old.run_file.created <= mine.created
        except DielError:
            continue
        if same and paths.root != run.paths.root:
            yield old


class _Lookup(Results):
    """Results that are read from the journal when they are asked for, a stage at a time."""

    def __init__(self, run: RunReader) -> None:
        super().__init__(run.paths)
        self._stage = cache(run.records)

    def outputs(self, stage: str, index: int) -> Made:
        """Raise MissingInput where the task has no result."""
        records = self._stage(stage)
        if index not in records:
            raise MissingInput(f"{stage}/{index} has no result")
        return records[index]
