"""A recipe: how a stage's tasks are made from their points and inputs.

What is the same for all tasks is worked out once here; what differs is read through a scope that
computes only the names that an expression asks for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diel.artifacts import Artifact, digest_of
from diel.attempt.bundle import Job, Question, Request, Staged, Staging
from diel.axes.domain import Group
from diel.errors import DielError, ModuleError
from diel.expressions import ExpressionError, Template, Tree, parse, parse_expression, parse_tree
from diel.graph import Key, Published
from diel.graph.surrogate import answered
from diel.modules.catalogue import Module
from diel.paths import RunPaths
from diel.spec import Flaws, Stage, Surrogate
from diel.spec.model import plain, refuse
from diel.spec.output import path_flaw
from diel.staging.item import Item
from diel.staging.shard import Shard
from diel.tasks.files import Files
from diel.tasks.key import digest_of_values, family_parts
from diel.tasks.link import Link
from diel.tasks.results import Results, output_of, outputs_of
from diel.tasks.scope import Scope
from diel.tasks.service import ServiceLink
from diel.tasks.sharing import Sharing, keyed
from diel.tasks.stage_run import StageRun
from diel.tasks.staging import copies


class MissingInput(DielError):
    """An input or expression asks for something that a task did not make."""


@dataclass(frozen=True)
class Resolved:
    """A task with all its values: what a worker gets, and the key of its result."""

    params: dict[str, Any]
    inputs: dict[str, Any]
    command: tuple[str, ...] | None
    outputs: dict[str, str]
    env: dict[str, str]
    key: str
    parts: tuple[str, str]
    staged: Staged | None = None
    shards: dict[str, Shard] | None = None
    services: dict[str, range] | None = None
    streams: dict[str, dict[str, str]] | None = None
    question: Question | None = None

    def request(self, index: int, attempt: int) -> Request:
        return Request(
            index,
            attempt,
            self.key,
            self.parts,
            self.params,
            self.inputs,
            self.command,
            self.outputs,
            self.env,
            self.staged,
            self.shards,
            self.services,
            self.streams,
            self.question,
        )


class Recipe:
    """Makes the requests of one stage."""

    def __init__(
        self,
        run: StageRun,
        module: Module | None,
        links: list[Link],
        results: Results,
        hyperparameters: Mapping[str, Any],
        folder: Path,
        paths: RunPaths,
        launcher: tuple[str, ...],
        grace: float = 60.0,
        staging: Staging | None = None,
    ) -> None:
        stage = run.spec
        self.run = run
        self.module = module
        self.links = links
        self.results = results
        self.hyperparameters = hyperparameters
        self.paths = paths
        self.files = Files(stage, folder)
        self.params = {name: parse_tree(value) for name, value in stage.params.items()}
        self.env = {name: parse(str(value)) for name, value in stage.env.items()}
        self.outputs = {n: parse(p) for n, o in stage.outputs.items() if (p := o.path or o.glob) is not None}
        self.when = _condition(stage.when)
        self.words = _words(stage)
        self.shell = parse(stage.command) if isinstance(stage.command, str) else None
        self._asked = _surrogate(stage, module)
        self.job = Job(
            stage=run.name,
            module=module,
            values={n: o.value for n, o in stage.outputs.items() if o.value is not None},
            timeout=stage.timeout,
            launcher=launcher,
            threads=stage.resources.cores_per_rank,
            ranks=stage.resources.processes,
            memory=stage.resources.memory,
            walltime=stage.resources.walltime,
            checkpoint=stage.checkpoint,
            grace=grace if stage.grace is None else stage.grace,
            staging=staging,
            service=plain(stage.service),
            surrogate=plain(self._asked),
            promises={n: plain(o) for n, o in stage.outputs.items() if o.stream is None and not o.is_plain},
        )
        self.streams: Callable[[int], dict[str, dict[str, str]]] | None = None
        """What a task has to do with streams; None for a stage that runs beside no other."""
        self.inputs = {
            link.edge.name: link for link in links if link.edge.name is not None and not link.edge.stream
        }
        self._published = [link for link in links if link.edge.published is not None]
        self.data = {
            (link.edge.upstream, link.edge.output): link
            for link in links
            if not link.edge.axis and not link.edge.published and not link.edge.stream
        }
        self._hyperparameter_inputs = {
            name: given.source.removeprefix("hp.")
            for name, given in stage.inputs.items()
            if given.source.startswith("hp.") and name not in self.inputs
        }
        self._at_node = tuple(name for name, given in stage.inputs.items() if given.stage is not None)
        self._sharing = Sharing(stage, self.inputs)
        services = [link for link in links if isinstance(link, ServiceLink)]
        self._services = [link for link in services if not link.edge.optional]
        surrogate = "" if stage.surrogate is None else stage.surrogate.service
        self._surrogate = next((link for link in services if link.up.name == surrogate), None)
        self.initially = {name: parse_tree(link.edge.initially) for name, link in self.inputs.items()}
        self.references = tuple(sorted(self._references()))
        self.family_parts = family_parts(stage, module, self.files.shared)
        self.family = digest_of([self.family_parts])
        self._gathered: dict[Key, tuple[Group, list[Any]]] = {}
        self._accepted = None if module is None else {p.name for p in module.signature.parameters}
        if module is not None and module.signature.variadic:
            self._accepted = None

    def registry(self, index: int) -> dict[str, Any]:
        """The hyperparameters of a task: the run's, then what stages before it publish, then its trial's.

        Raises MissingInput where a published value is missing or does not fit.
        """
        published = dict(self._read_published(link, index) for link in self._published)
        return {**self.hyperparameters, **published, **self.run.searched(index)}

    def _read_published(self, link: Link, index: int) -> tuple[str, Any]:
        published = link.edge.published
        assert published is not None
        maker = "/".join([link.edge.upstream, *map(str, link.members(link.group_of_downstream(index)))])
        return published.name, accepted(published, self.read(link, index), maker)

    def static_inputs(self, index: int) -> dict[str, Any]:
        """The inputs that are hyperparameters of the task itself. Raises MissingInput without a value."""
        if not self._hyperparameter_inputs:
            return {}
        known = self.registry(index)
        for name in self._hyperparameter_inputs.values():
            if name not in known:
                raise MissingInput(f"hp.{name} has no value: give it a default, or --set hp.{name}=VALUE")
        return {label: known[name] for label, name in self._hyperparameter_inputs.items()}

    def _references(self) -> set[tuple[str, ...]]:
        found: set[tuple[str, ...]] = set()
        for tree in self.params.values():
            found |= tree.references
        templates: list[Template | Tree] = [*self.env.values(), *self.outputs.values(), *self.words]
        if self.shell is not None:
            templates.append(self.shell)
        for template in templates:
            found |= template.references
        return {
            chain
            for chain in found
            if chain[0] not in ("run", "outputs", "files", "params", "inputs")
            and chain[:2] != ("task", "attempt")
        }

    def is_wanted(self, index: int) -> bool:
        """Whether `when` holds for a task. Raises ExpressionError and MissingInput."""
        if self.when is None:
            return True
        return self.when if isinstance(self.when, bool) else bool(self.when.value(Scope(self, index)))

    def resolve(self, index: int) -> Resolved:
        """Everything about a task. Raises ExpressionError, MissingInput and ModuleError."""
        scope = Scope(self, index)
        point = scope.point
        params = {name: tree.value(scope) for name, tree in self.params.items()}
        given = {
            name: value
            for name, value in point.items()
            if name not in params and (self._accepted is None or name in self._accepted)
        }
        params = {**given, **params}
        inputs = scope["inputs"]
        outputs = {name: template.text_value(scope) for name, template in self.outputs.items()}
        for name, path in outputs.items():
            _check_inside(name, path)
        env = {name: template.text_value(scope) for name, template in self.env.items()}
        for name, text in env.items():
            if "\0" in text:
                raise ModuleError(f"env '{name}': a variable cannot hold a NUL character")
        shards = self._sharing.shards(index, inputs) if self._sharing else None
        key, parts = self._key(scope, inputs, shards)
        resolved = Resolved(params, inputs, self._command(scope), outputs, env, key, parts, None, shards)
        if self.streams is not None:  # what came through streams is in no key: another run's never fits
            key = digest_of([key, self.paths.run_id])
            resolved = replace(resolved, key=key, streams=self.streams(index))
        if self._services:
            resolved = replace(resolved, services=self._replicas(index))
        if self._surrogate is not None:
            question = self._question(self._surrogate, index, {**point, **params}, key, parts)
            resolved = replace(resolved, question=question)
        return replace(resolved, staged=self._staged(index, resolved, given)) if self._at_node else resolved

    def _question(
        self, link: ServiceLink, index: int, known: Mapping[str, Any], key: str, parts: tuple[str, str]
    ) -> Question | None:
        """What a task asks its surrogate; None where that will not come."""
        group = link.group_of_downstream(index)
        surrogate = self._asked
        if surrogate is None or link.is_spared(group):
            return None
        try:
            model = link.key(group)
        except (ExpressionError, MissingInput, ModuleError):
            return None
        given = digest_of([model, surrogate.model_dump(exclude={"timeout"})])
        row = {name: known[name] for name in surrogate.inputs or known if type(known.get(name)) in _NUMBERS}
        replicas = tuple(link.replicas(group))
        return Question(row, replicas, digest_of([key, given]), (parts[0], digest_of([parts[1], given])[:16]))

    def _replicas(self, index: int) -> dict[str, range]:
        """The services that a task asks, with the task indices of their replicas."""
        return {link.up.name: link.replicas(link.group_of_downstream(index)) for link in self._services}

    def _staged(self, index: int, resolved: Resolved, given: Mapping[str, Any]) -> Staged | None:
        """The task's texts once more, with copies on its node in the place of artifacts; None without any."""
        items: dict[str, Item] = {}
        shards = resolved.shards or {}
        names = [name for name in self._at_node if name not in shards or not shards[name].stage]
        inputs = {
            name: copies(value, items) if name in names else value for name, value in resolved.inputs.items()
        }
        if not items:
            return None
        scope = Scope(self, index, inputs)
        params = {**given, **{name: tree.value(scope) for name, tree in self.params.items()}}
        env = {name: template.text_value(scope) for name, template in self.env.items()}
        return Staged(tuple(items.values()), params, inputs, self._command(scope), env)

    def own_files(self, index: int) -> dict[str, str]:
        """The files that a task has of its own, absolute. Raises ExpressionError and MissingInput."""
        return self.files.own(Scope(self, index))

    def _command(self, scope: Scope) -> tuple[str, ...] | None:
        if self.shell is not None:
            return (*self.run.spec.interpreter, self.shell.shell(scope))
        if self.module is not None:
            return None
        return tuple(word for template in self.words for word in template.words(scope))

    def reads(self, index: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """What enters a task's key by its name: its own values, and what it reads of others.

        Without its files and services. Raises ExpressionError, MissingInput and ModuleError.
        """
        scope = Scope(self, index)
        inputs = scope["inputs"]
        return self._reads(scope, inputs, self._sharing.shards(index, inputs) if self._sharing else None)

    def _reads(
        self, scope: Scope, inputs: dict[str, Any], shards: dict[str, Shard] | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        own: dict[str, Any] = {**scope.point, **(keyed(shards) if shards else {})}
        taken: dict[str, Any] = dict(inputs)
        for chain in self.references:
            kept = own if self.link_of(chain) is None else taken
            kept[".".join(chain)] = scope.read(chain)
        return own, taken

    def link_of(self, chain: tuple[str, ...]) -> Link | None:
        """The edge along which an expression reads what another stage made; None where it reads none."""
        return self.data.get((chain[0], chain[1] if len(chain) > 1 else None))

    def _key(
        self, scope: Scope, inputs: dict[str, Any], shards: dict[str, Shard] | None
    ) -> tuple[str, tuple[str, str]]:
        own, taken = self._reads(scope, inputs, shards)
        own.update(self.files.digests(scope))
        for link in self._services:  # what a service answers depends on what it reads
            taken[f"service {link.up.name}"] = link.key(link.group_of_downstream(scope.index))
        params = digest_of_values(own)
        read = digest_of_values(taken) if taken else ""
        return digest_of([self.family, params, read]), (params[:16], read[:16])

    def read(self, link: Link, index: int) -> Any:
        """What a task reads along an edge: one output, or the list of the gathered ones."""
        group = link.group_of_downstream(index)
        if not link.edge.gathered:
            one = next(iter(link.members(group)), None)
            return self._begin(link, index) if one is None else self.output(link, one)
        output = link.edge.output or link.edge.hyperparameter
        place = (*link.edge.key, str(output))  # one expression may read several outputs
        known = self._gathered.get(place)
        if known is None or known[0] != group or link.edge.renewed:
            known = group, [self.output(link, one) for one in link.good_members(group)]
            self._gathered[place] = known  # the latest group is the one that more tasks will read
        if not known[1] and link.edge.begun:
            return self._begin(link, index)
        return known[1]

    def _begin(self, link: Link, index: int) -> Any:
        """What a task of the first round reads in place of the round before."""
        return self.initially[str(link.edge.name)].value(Scope(self, index))

    def output(self, link: Link, index: int) -> Any:
        """What one upstream task gives along an edge. Raises MissingInput, KeyError for a hyperparameter."""
        if link.edge.hyperparameter is not None:
            return {**self.hyperparameters, **link.up.searched(index)}[link.edge.hyperparameter]
        output = link.edge.output
        assert output is not None
        record = self.results.made(link.edge.upstream, index)
        try:
            return output_of(record, output, self.paths.root)
        except KeyError:
            point = link.up.point(index)
            if output in point:
                return point[output]
            made = ", ".join(outputs_of(record)) or "nothing"
            raise MissingInput(f"{link.edge.upstream}/{index} made no '{output}'; it made: {made}") from None


def accepted(published: Published, value: Any, maker: str) -> Any:
    """A published value as its hyperparameter keeps it. Raises MissingInput for a bad one."""
    try:
        if type(value) is Artifact:
            raise refuse("expected a value, found a file")
        return published.given.accept(value)
    except Flaws as error:
        told = f"hp.{published.name}, as {maker} has published it: {error.flaws[0].message}"
        raise MissingInput(told) from None


_NUMBERS = (int, float)


def _surrogate(stage: Stage, module: Module | None) -> Surrogate | None:
    """A stage's surrogate, with the outputs that it answers."""
    if stage.surrogate is None:
        return None
    outputs = answered(stage, None if module is None else module.signature)
    return stage.surrogate.model_copy(update={"outputs": outputs})


def _condition(when: str | bool | None) -> Template | bool | None:
    return parse_expression(when) if isinstance(when, str) else when


def _words(stage: Stage) -> list[Template]:
    if not isinstance(stage.command, tuple):
        return []
    return [parse(word if isinstance(word, str) else json.dumps(word)) for word in stage.command]


def _check_inside(name: str, path: str) -> None:
    flaw = path_flaw(path)
    if flaw:
        raise ModuleError(f"output '{name}': {flaw}: {path!r}")
