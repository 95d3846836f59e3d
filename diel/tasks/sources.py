"""The sources of a stage's tasks: points, files, hyperparameters, and other stages' outputs.

Each name is computed when an expression asks for it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from diel.base.errors import HintedError
from diel.base.paths import RunPaths
from diel.base.units import Rule, UnitsError, conversions
from diel.store.artifacts import Artifact
from diel.tasks.joins import picks_of
from diel.tasks.link import Link, Verdict
from diel.tasks.points.adaptive import Adaptive
from diel.tasks.points.domain import Group
from diel.tasks.publisher import published_values
from diel.tasks.results import MissingInput, Results, output_of, outputs_of
from diel.tasks.selection import ChoosingLink
from diel.tasks.service import ServiceLink
from diel.tasks.stage_run import StageRun
from diel.tasks.stream import StreamLink
from diel.tasks.texts import NOWHERE, Files, Texts, Watch
from diel.worker.attempt.bundle import AT_LAUNCHER
from diel.workflow.expressions import parse_tree, reference_of
from diel.workflow.expressions.expression import PLACES, Lazily
from diel.workflow.expressions.gathered import GatheredValues
from diel.workflow.graph import Edge, Key
from diel.workflow.graph.uses import unread
from diel.workflow.models import Stage


def link_of(
    edge: Edge, up: StageRun, down: StageRun, axes: Mapping[str, Adaptive], makers: tuple[StageRun, ...] = ()
) -> Link:
    """Return the link of an edge. `axes` has the run's searches and loops."""
    if edge.service:
        return ServiceLink(edge, up, down, makers=makers)
    if edge.stream:
        return StreamLink(edge, up, down, makers=makers)
    if not edge.chosen:
        return Link(edge, up, down, makers=makers)
    return ChoosingLink(edge, up, down, makers=makers, axes={label: axes[label] for label in edge.chosen})


class InputNotReady(MissingInput):
    """A task takes a branch of an expression in which it reads what is not there, or not yet."""

    def __init__(self, link: Link, verdict: Verdict) -> None:
        super().__init__(f"{link.edge.upstream}.{link.edge.output} has no result")
        self.link, self.verdict = link, verdict


class Sources:
    """What the tasks of one stage read. A scope is that of the reading task."""

    def __init__(
        self,
        run: StageRun,
        links: list[Link],
        results: Results,
        hyperparameters: Mapping[str, Any],
        folder: Path,
        paths: RunPaths,
        watch: Watch,
        homes: Mapping[str, Path] = NOWHERE,
    ) -> None:
        """Link a stage to what it reads. `homes` are those of `Files`."""
        self.run = run
        self.links = links
        self.paths = paths
        self.texts = Texts(run.spec)
        self.files = Files(run.spec, folder, watch, homes)
        self._results = results
        self._hyperparameters = hyperparameters
        data = [link for link in links if not link.edge.stream]
        self.inputs = {link.edge.name: link for link in data if link.edge.name is not None}
        self.made = {
            (link.edge.upstream, link.edge.output): link
            for link in sorted(data, key=lambda link: link.edge.name is None)  # unconverted, if both read it
            if not link.edge.axis and not link.edge.published
        }
        """The edges that expressions read, by stage and output."""
        self._published = [link for link in links if link.edge.published]
        self.own_inputs = {
            label: declared.source.removeprefix("hp.")
            for label, declared in run.spec.inputs.items()
            if declared.source.startswith("hp.") and label not in self.inputs
        }
        """The inputs that are hyperparameters of the task itself, by label."""
        self.conversions: Mapping[str, Any] = conversions_of(run, self.inputs.values())
        """How inputs in other units are converted, by name."""
        self.columns = columns_of(run.spec, self.inputs) if run.spec.module is not None else {}
        """The types of columns that contracts declare, by input of a module."""
        self._begun = {
            name: conversions(units, target)
            for name, declared in run.spec.inputs.items()
            if (target := declared.units) and (chain := reference_of(declared.initially))
            if (units := run.units_read(chain))
        }
        """How values of `initially` in other units are converted, by input."""
        self._initially = {name: parse_tree(link.edge.initially) for name, link in self.inputs.items()}
        self._points: dict[tuple[str, ...], list[Group]] = {}
        """The points of the latest gather, by its axes."""
        self._gathered: dict[Key, tuple[Group, GatheredValues]] = {}

    def link_of(self, chain: tuple[str, ...]) -> Link | None:
        """Return the edge along which an expression reads what another stage made; None if it reads none."""
        return self.made.get((chain[0], chain[1] if len(chain) > 1 else None))

    def registry(self, index: int, scope: Mapping[str, Any]) -> dict[str, Any]:
        """Return a task's hyperparameters: the run's, earlier stages', its trial's. Raise MissingInput."""
        values: Mapping[str, Any] = self._hyperparameters
        if self._published:
            published = published_values(self._published, index, lambda link: self.read(link, index, scope))
            values = {**values, **published}
        return {**values, **self.run.searched(index)}

    def read(self, link: Link, index: int, scope: Mapping[str, Any]) -> Any:
        """Return a task's value along an edge. Raise MissingInput, and Unready along a branch's edge."""
        group = link.group_of_downstream(index)
        if link.edge.branch and (verdict := link.verdict(group)) is not Verdict.READY:
            raise InputNotReady(link, verdict)
        if not link.edge.gathered:
            member = next(iter(link.members(group)), None)
            return self._begin(link, scope) if member is None else self.output(link, member)
        output = link.edge.output or link.edge.hyperparameter
        place = (*link.edge.key, link.edge.upstream, str(output))  # one text may read several
        cached = self._gathered.get(place)
        if cached is None or cached[0] != group or link.edge.renewed:
            cached = group, self._gather(link, group)
            self._gathered[place] = cached  # more tasks will read the latest group
        return self._begin(link, scope) if not cached[1] and link.edge.begun else cached[1]

    def _gather(self, link: Link, group: Group) -> GatheredValues:
        listed, good = link.listed(group), link.up.history.state
        values = (self.output(link, member) if good(member).good else None for _, member in listed)
        axes, points = link.edge.gathered, [place for place, _ in listed]
        if self._points.get(axes) != points:
            self._points[axes] = points
        picks = picks_of(link.edge)
        return GatheredValues(
            values, axes, self._points[axes], picks
        )  # one list, for points are often compared

    def _begin(self, link: Link, scope: Mapping[str, Any]) -> Any:
        """Return the value that a task of the first round reads instead of the previous round's."""
        name = str(link.edge.name)
        value, rule = self._initially[name].value(scope), self._begun.get(name)
        try:
            return value if rule is None else rule.apply(value)
        except UnitsError as error:
            raise MissingInput(f"input '{name}': its `initially` is in other units: {error}") from None

    def output(self, link: Link, index: int) -> Any:
        """Return an upstream task's value along an edge. Raise MissingInput, or KeyError."""
        if link.edge.hyperparameter is not None:
            return {**self._hyperparameters, **link.up.searched(index)}[link.edge.hyperparameter]
        output = link.edge.output
        assert output is not None
        record = self._results.outputs(link.edge.upstream, index)
        try:
            value = output_of(record, output, self.paths.root)
        except KeyError:
            point = link.up.point(index)
            if output not in point:
                names = ", ".join(outputs_of(record)) or "nothing"
                raise MissingInput(f"{link.up.task(index)} made no '{output}'; it made: {names}") from None
            value = point[output]
        rule = self.conversions.get(str(link.edge.name)) if self.conversions else None
        return value if rule is None else self._converted(link, index, rule, value)

    def _converted(self, link: Link, index: int, rule: Any, value: Any) -> Any:
        """Return a value in other units; a file as it is, if its function converts the numbers."""
        try:
            if not _is_of_files(value):
                return rule.apply(value)
            if (which := unread(self.run.spec, str(link.edge.name))) is not None:
                hint = "drop `units`, and convert it in the program"
                raise UnitsError(f"nothing converts a file {which}", hint)
            return value
        except HintedError as error:
            task = f"{link.up.task(index)}.{link.edge.output}"
            raise MissingInput(f"input '{link.edge.name}': {task} is in other units: {error}") from None


def columns_of(stage: Stage, links: Mapping[str, Link]) -> dict[str, dict[str, str]]:
    """Return the types of columns that either end of each edge declares, by input."""
    promises: dict[str, dict[str, str]] = {}
    for name in {**links, **stage.inputs}:
        link = links.get(name)
        source = None if link is None else link.up.spec.outputs.get(str(link.edge.output))
        own = stage.inputs[name].columns if name in stage.inputs else None
        columns: dict[str, str] = {**((source and source.columns) or {}), **(own or {})}
        if columns:
            promises[name] = columns
    return promises


class Scope(Mapping[str, Any]):
    """The names that the expressions of one task can read."""

    def __init__(
        self, sources: Sources, index: int, inputs: Mapping[str, Any] | None = None, attempt: int = 0
    ) -> None:
        """Read for a task. `inputs` replace what the task reads; `attempt` is the next one if 0."""
        self.sources = sources
        self.index = index
        self._attempt = attempt
        self.point = sources.run.point(index)
        self._values: dict[str, Any] = {} if inputs is None else {"inputs": inputs}
        self.join: Callable[[Any], Any] | None = None
        """The treatment of a gathered value that a command takes."""
        self.branches: set[Key] = set()
        """The edges of the branches that expressions took."""

    def join_by(self, join: Callable[[Any], Any] | None) -> None:
        """Set the treatment of gathered values; parameters are evaluated again, for texts hold some."""
        self.join = join
        self._values.pop("params", None)

    def __getitem__(self, name: str) -> Any:
        if name in self.point:
            return self.point[name]
        if name not in self._values:
            self._values[name] = self._places() if name == PLACES else self._find(name)
        return self._values[name]

    def read(self, chain: tuple[str, ...]) -> Any:
        """Return the value of a dotted name, followed through mappings."""
        value: Any = self
        for name in chain:
            if not isinstance(value, Mapping):
                return value
            value = value[name]
        return value

    def along(self, link: Link) -> Any:
        """Return the task's value along an edge. Raise MissingInput."""
        if link.edge.branch:
            self.branches.add((*link.edge.key, link.edge.upstream, str(link.edge.output)))
        return self.sources.read(link, self.index, self)

    def maker(self, chain: tuple[str, ...]) -> str:
        """Return the one task that made the value of a dotted name; empty where none or several did."""
        inputs = self.sources.inputs
        link = inputs.get("".join(chain[1:2])) if chain[0] == "inputs" else self.sources.link_of(chain)
        if link is None or link.edge.gathered:
            return ""
        member = next(iter(link.members(link.group_of_downstream(self.index))), None)
        return "" if member is None else link.up.task(member)

    def reads(self, chain: tuple[str, ...]) -> bool:
        """Return whether evaluated expressions have read a dotted name of the stage."""
        link = self.sources.link_of(chain)
        if link is None or not link.edge.branch:
            return True
        return (*link.edge.key, link.edge.upstream, str(link.edge.output)) in self.branches

    def hyperparameter_inputs(self) -> dict[str, Any]:
        """Return the inputs that are hyperparameters of the task itself. Raise MissingInput."""
        for name in self.sources.own_inputs.values():
            if name not in self["hp"]:
                raise MissingInput(f"hp.{name} has no value: give it a default, or --set hp.{name}=VALUE")
        return {label: self["hp"][name] for label, name in self.sources.own_inputs.items()}

    def _find(self, name: str) -> Any:
        sources = self.sources
        match name:
            case "params":
                return {key: tree.value(self) for key, tree in sources.texts.params.items()}
            case "inputs":
                read = {key: self.along(link) for key, link in sources.inputs.items()}
                return {**self.hyperparameter_inputs(), **read}
            case "outputs":
                return {key: template.text_value(self) for key, template in sources.texts.outputs.items()}
            case "hp":
                return sources.registry(self.index, self)
            case "files":
                return sources.files.paths(self)
            case "task":
                stage = sources.run.name
                attempt = self._attempt or sources.run.history.attempts.get(self.index, 0) + 1
                task = f"{stage}/{self.index}"
                return {"id": task, "index": self.index, "attempt": attempt, "stage": stage}
            case "launcher":
                return AT_LAUNCHER
            case "run":
                return {"id": sources.paths.run_id, "dir": str(sources.paths.root)}
        links = {output: link for (stage, output), link in sources.made.items() if stage == name}
        if links:  # its outputs, by the edge rules
            return Lazily(
                {str(output): partial(self.along, link) for output, link in links.items() if output}
            )
        for axis, points in sources.run.points.items():
            if axis == name:  # an axis with several parameters: its point as a mapping
                return {key: self.point[key] for key in points.parameters}
        raise KeyError(name)

    def _places(self) -> Lazily:
        """Return the numbers of the points of each axis along which the task gathers."""
        links = sorted(self.sources.links, key=lambda link: len(link.edge.matched))
        by_axis = {axis: link for link in links for axis in link.edge.gathered}
        return Lazily({axis: partial(link.places, axis, self.index) for axis, link in by_axis.items()})

    def __iter__(self) -> Iterator[str]:
        yield from self.point
        yield from ("hp", "files", "params", "inputs", "outputs", "task", "run", "launcher")
        yield from {stage for stage, _ in self.sources.made}

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _is_of_files(value: Any) -> bool:
    return any(map(_is_of_files, value[:1])) if isinstance(value, list) else type(value) is Artifact


def conversions_of(run: StageRun, links: Iterable[Link]) -> dict[str, Rule]:
    """Return the rules by input; empty where all units are the same."""
    rules: dict[str, Rule] = {}
    for link in links:
        name = link.edge.name
        target = run.spec.inputs[name].units if name in run.spec.inputs else None
        if name is None or target is None:
            continue
        units = run.units_read((link.edge.upstream, str(link.edge.output)))
        if units is not None and units != target and (rule := conversions(units, target)) is not None:
            rules[name] = rule
    return rules
