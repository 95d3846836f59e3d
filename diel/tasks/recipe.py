"""A recipe: how a stage's tasks are made, from what they share and what each reads.

What is the same for all tasks is worked out once here; what differs is read through a scope that
computes only the names that an expression asks for.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from diel.base.errors import DielError
from diel.base.paths import RunPaths
from diel.site.shape import Shape, launcher_words
from diel.site.site import Site
from diel.store.artifacts import Artifact, File, artifacts_in, digest_of
from diel.store.artifacts.artifact import Breach
from diel.store.artifacts.collect import hold_file
from diel.store.artifacts.promise import Sizes
from diel.tasks.joins import GatherJoin, Join, points_read
from diel.tasks.link import Link
from diel.tasks.points.domain import Group
from diel.tasks.results import MissingInput
from diel.tasks.service import AskedServices
from diel.tasks.sources import Scope, Sources
from diel.tasks.stream import StreamEnds
from diel.tasks.surrogate import asking_of, surrogate_of
from diel.tasks.texts import OwnNames, Texts
from diel.worker.attempt.bundle import Rendered, Request, StagedTask, Staging, Work
from diel.worker.attempt.service import Answers
from diel.worker.environments.prepared import PreparedEnvironment, read_prepared
from diel.worker.staging.item import AT_NODE, Item, Local, Shard, flat, item_of
from diel.workflow.expressions import parse
from diel.workflow.expressions.expression import PLACES
from diel.workflow.expressions.gathered import GatheredValues
from diel.workflow.graph import Key
from diel.workflow.graph.uses import expressions, launches
from diel.workflow.models import Output, Resources, Stage
from diel.workflow.models.forms.axis import bare
from diel.workflow.models.model import plain
from diel.workflow.models.variables import FromShell
from diel.workflow.modules.catalogue import Module

APART = {"stream", "units", "digest", "keep", "drain", "export"}
"""Keys of an output that do not enter the cache key: they do not affect what is made."""


def work_of(
    name: str,
    stage: Stage,
    module: Module | None,
    launcher: tuple[str, ...],
    shape: Shape,
    site: Site,
    environments: Mapping[str, PreparedEnvironment] | None = None,
) -> Work:
    """Return the common part of a stage's tasks for workers."""
    return Work(
        stage=name,
        module=module,
        values={n: o.value for n, o in stage.outputs.items() if o.value and (o.is_plain or not o.way)},
        timeout=stage.timeout,
        launcher=launcher,
        threads=stage.resources.cores_per_rank,
        ranks=stage.resources.processes,
        memory=stage.resources.memory,
        walltime=stage.resources.walltime,
        checkpoint=stage.checkpoint,
        grace=site.grace if stage.grace is None else stage.grace,
        rehearses=stage.grace is not None,
        staging=staging_of(site, stage, shape) if stage.moves_data else None,
        service=plain(stage.service),
        surrogate=plain(surrogate_of(stage, module)) if stage.surrogate else None,
        environments=environments,
        promises={
            name: plain(output)
            for name, output in stage.outputs.items()
            if output.stream is None and (module is not None or not output.is_plain)
        },
        launches=launches(stage) if launcher else False,
        apart=stage.isolation is not None,
        from_shell=tuple(name for name, value in stage.env.items() if isinstance(value, FromShell)),
    )


def family_parts(
    stage: Stage, module: Module | None, files: Iterable[tuple[str, str, str]], name: str = ""
) -> dict[str, str]:
    """Digest what all tasks of a stage share, by part of the key; `files` are those of `Files.static`."""
    own = OwnNames(name, Texts(stage).references if "." in name else ())
    reference = "" if module is None else f"{module.reference}:{module.function}"
    digest = "" if module is None else module.digest
    outputs = [[name, _promise_of(output)] for name, output in stage.outputs.items()]
    command = list(stage.command) if isinstance(stage.command, tuple) else stage.command
    if stage.interpreter:
        command = [*stage.interpreter, command]
    apart = [] if stage.isolation is None else [stage.isolation]  # leftovers in a worker are no part of a key
    return {
        "module": digest_of([reference, digest, *apart])[:16],
        # A tuple's items are named by the order of outputs; a command sees no order of them.
        "command": digest_of(own.text([command, outputs if module else sorted(outputs)]), in_order=True)[:16],
        "params": digest_of(own.text([dict(stage.params)]), in_order=True)[:16],
        "files": digest_of([list(file) for file in files])[:16],
        "env": digest_of(own.text([dict(stage.env)]))[:16],
    }


def _promise_of(output: Output) -> list[Any]:
    """Return an output's part of a key: its form and promises, without its units and `keep`."""
    plain: list[Any] = [output.path, output.value]
    promised = output.model_dump(exclude={"path", "value", *APART}, exclude_defaults=True)
    return [*plain, promised] if promised else plain


def digest_of_values(values: Mapping[str, Any]) -> str:
    """Digest what a task reads, in its order; of artifacts, content and name, and not where they are."""
    return digest_of([_keyed(values)], in_order=True)


def _keyed(value: Any) -> Any:
    if type(value) is Artifact:
        inside = {"inside": value.inside} if value.inside else {}
        return {"artifact": value.digest, "name": value.name, **inside}
    if isinstance(value, dict):
        return {key: _keyed(item) for key, item in value.items()}
    return [_keyed(item) for item in value] if isinstance(value, list) else value


class Recipe:
    """Makes the requests of one stage."""

    def __init__(
        self,
        sources: Sources,
        module: Module | None,
        parts: dict[str, str],
        streams: StreamEnds | None = None,
    ) -> None:
        """Prepare what all tasks share. `parts` are those of all keys, `streams` those of a gang's stage."""
        stage = sources.run.spec
        self.sources = sources
        self.family_parts, self._module = parts, module
        self.family = digest_of([parts])
        self.streams = streams
        self._texts = sources.texts
        self.chains = OwnNames(sources.run.name, sources.texts.references).chains
        """The dotted names that enter a task's key, as its own workflow has them."""
        shared_out = any(spec.shard is not None for spec in stage.inputs.values())
        self._sharing = InputSplit(stage, sources.inputs, self.is_wanted) if shared_out else None
        self._services = AskedServices(sources.links) if stage.services else None
        self._asking = asking_of(stage, module, sources.links) if stage.asks else None
        self._shaped = {name: use.shape for name, use in stage.inputs.items() if use.shape is not None}
        self._at_node = tuple(name for name, spec in stage.inputs.items() if spec.stage is not None)
        links = sources.links
        self.meeting = GatherJoin(links)
        """The gathers that meet in each task."""
        self._gathers = any(link.edge.gathered and not link.alongside for link in links)
        self._branches = any(link.edge.branch for link in links)
        self._listed = sources.texts.inputs & {n for n, link in sources.inputs.items() if link.edge.gathered}
        """The gathered inputs that expressions read: whole, and not as they meet."""
        gathers = any(link.edge.gathered and link.edge.name is None for link in sources.made.values())
        texts = expressions((), stage) if self._gathers else ()
        self._along = {axis for _, use in texts for axis in use.axes}
        """The axes of whose points the items of lists are put."""
        self._mixed = bool(self._listed or self._along) or gathers
        """Whether expressions read what is gathered, so that points may count for what they give."""
        self._chosen = keyed_by_task(stage, sources.paths) if stage.demand else None
        signature = None if module is None or module.signature.variadic else module.signature
        self._accepted = None if signature is None else {p.name for p in signature.parameters}
        self.unread = self._unread(passed=module is not None)
        """The numbers of trials that nothing reads, by the names that they have in a task's point."""
        alone = stage.service is None and streams is None
        self.shares = bool(self.unread) and alone and all(output.keep for output in stage.outputs.values())
        """Whether tasks that are equal but for these share a result."""

    def _unread(self, *, passed: bool) -> frozenset[str]:
        """Return the parameters that nothing reads. `passed`: whether a function gets its point by name."""
        stage = self.sources.run.spec
        read = {chain[0] for chain in self.sources.texts.references}
        read |= set() if stage.surrogate is None else set(stage.surrogate.inputs)
        numbers = {bare(axis.label) for axis in self.sources.run.adaptive if axis.axis.word == "search"}
        return frozenset(n for n in numbers - read if not passed or n not in (self._accepted or {n}))

    def scope(self, index: int) -> Scope:
        return Scope(self.sources, index)

    def is_wanted(self, index: int) -> bool:
        """Return whether `when` holds for a task. Raise ExpressionError and MissingInput."""
        return self._texts.is_wanted(partial(self.scope, index))

    def resolve(self, index: int) -> Request:
        """Work out a task but for its attempt. Raise ExpressionError, MissingInput and ModuleError."""
        scope, run = self.scope(index), self.sources.run
        spec = run.spec if self._chosen is None else run.spec_of(index)
        join = self._joined(scope)
        params, inputs = self._handed_on(scope, join)
        self._hold(inputs)
        outputs = self._texts.paths(scope)
        env, command, rendered = self._written(scope)
        shards = self._shards(scope, inputs)
        key, parts, reads, answers = self._key(scope, shards, inputs)
        watched = self.sources.files.watched(scope)
        if self._services is not None:
            theirs, read = self._services.held(index)
            watched, reads = (*watched, *theirs), {**reads, **read}
        question = None
        if self._asking is not None:
            question = self._asking(index, {**self._point(scope), **params}, key, parts)
        return Request(
            index=index,
            attempt=0,
            key=key,
            parts=parts,
            params=params,
            inputs=inputs,
            command=command,
            outputs=outputs,
            env=env,
            staged=self._staged(scope, shards, join) if self._at_node else None,
            shards=shards,
            services=None if self._services is None else self._services.replicas(index),
            streams=None if self.streams is None else self.streams(index),
            question=question,
            rendered=rendered,
            environment=spec.environment,
            answers=answers,
            reads=reads or None,
            watched=watched,
            point=scope.point,
        )

    def served(self, index: int) -> Request:
        """Return a service's request with all files where they lie. Raise as `resolve` does."""
        request = self.resolve(index)
        watched = (*self.sources.files.watched_by_all(self._module), *request.watched)
        return request._replace(watched=watched)

    def _hold(self, inputs: Mapping[str, Any]) -> None:
        """Hold what a task reads to the shapes that its stage expects, by header. Raise MissingInput."""
        sizes: Sizes = {}
        for name, shape in self._shaped.items():
            for file in artifacts_in(inputs.get(name)):
                try:
                    hold_file(name, file, Output.model_construct(shape=shape, inside=file.inside), sizes)
                except (Breach, OSError) as breach:
                    raise MissingInput(f"input '{name}': {breach}") from None

    def _joined(self, scope: Scope) -> Join | None:
        """Return how gathers meet in a task, those of its texts included; None without gathers."""
        if not self._gathers:
            return None
        inputs = scope["inputs"]
        join = Join(apart=lambda: bool(self.meeting.gaps(scope.index)))
        for value in inputs.values():
            if isinstance(value, GatheredValues):
                join.note(value)
        if self._mixed or self.sources.run.spec.rendered:
            scope.join_by(join.note)
            join.note(self._params(scope))
            self._written(scope)
            scope.join_by(join.meet)
        return join

    def _handed_on(self, scope: Scope, join: Join | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the parameters and inputs of a task; gathered values are plain lists, joined by point."""
        params, inputs = self._params(scope), scope["inputs"]
        if join is None:
            return params, inputs
        met = {
            name: join.meet(value) if isinstance(value, GatheredValues) else value
            for name, value in inputs.items()
        }
        return join.meet(params), met

    def _written(self, scope: Scope) -> tuple[dict[str, str], tuple[str, ...] | None, tuple[Rendered, ...]]:
        """Return the texts of a task: its variables, its command, its files."""
        texts = self._texts
        return texts.env(scope), texts.command(scope), self.sources.files.render(scope)

    def _params(self, scope: Scope) -> dict[str, Any]:
        """Return the parameters of a task: of its point those that its module takes, and its stage's."""
        params, takes = scope["params"], self._accepted
        point = self._point(scope).items()
        return {**{n: v for n, v in point if n not in params and (takes is None or n in takes)}, **params}

    def _point(self, scope: Scope) -> dict[str, Any]:
        """Return a task's point without the parameters that nothing reads."""
        unread = self.unread
        return {n: v for n, v in scope.point.items() if n not in unread} if unread else scope.point

    def _shards(self, scope: Scope, inputs: Mapping[str, Any]) -> dict[str, Shard] | None:
        return self._sharing.shards(scope.index, inputs) if self._sharing is not None else None

    def _staged(self, scope: Scope, shards: dict[str, Shard] | None, join: Join | None) -> StagedTask | None:
        """Return the task's texts again, with copies on its node in place of artifacts; None without any."""
        late = {name for name, shard in (shards or {}).items() if shard.stage}
        inputs, items = copies(scope["inputs"], {*self._at_node} - late)
        if not items:
            return None
        again = Scope(self.sources, scope.index, inputs)
        again.join_by(scope.join)
        env, command, rendered = self._written(again)
        return StagedTask(items, *self._handed_on(again, join), command, env, rendered)

    def own_files(self, index: int) -> dict[str, File]:
        """Return the files that a task has of its own, absolute. Raise ExpressionError and MissingInput."""
        return self.sources.files.own(self.scope(index))

    def reads(self, index: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a key's values by name, without files and services. Raise as `resolve`."""
        scope = self.scope(index)
        _, inputs = self._handed_on(scope, self._joined(scope))
        if self._branches:
            self._written(scope)
        return self._reads(scope, self._shards(scope, inputs), scope["inputs"])

    def _reads(
        self, scope: Scope, shards: dict[str, Shard] | None, inputs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values that a task reads, own ones and other tasks'; branches not taken are not read."""
        own: dict[str, Any] = keyed(shards) if shards else {}
        if self._chosen is not None:
            own.update(self._chosen(scope))
        upstream: dict[str, Any] = {}
        for name, rule in self.sources.conversions.items():
            upstream[f"units of {name}"] = rule
        for name, columns in self.sources.columns.items():
            upstream[f"columns of {name}"] = columns
        for name, chain in self.chains.items():
            if self._branches and not scope.reads(chain):
                continue
            target = own if self.sources.link_of(chain) is None else upstream
            target[name] = scope.read(chain)
        if self._mixed:
            places = scope[PLACES] if self._along else {}
            along = {
                axis: GatheredValues(at := places[axis], (axis,), [(n,) for n in at]) for axis in self._along
            }
            upstream |= points_read({**inputs, **upstream, **scope["inputs"], **along})
            upstream |= {f"all of {name}": scope["inputs"][name] for name in self._listed if name in inputs}
        own, upstream = dict(sorted(own.items())), dict(sorted(upstream.items()))  # they have no order
        return {**self._point(scope), **own}, {**inputs, **upstream}

    def _key(
        self, scope: Scope, shards: dict[str, Shard] | None, inputs: Mapping[str, Any]
    ) -> tuple[str, tuple[str, str], dict[str, Any], Answers | None]:
        """Return a task's key, its parts, the files of other tasks that it reads, by name, and the answers
        that make the key, if services take newer inputs."""
        own, upstream = self._reads(scope, shards, inputs)
        reads = {name: value for name, value in upstream.items() if any(artifacts_in(value))}
        own.update(sorted(self.sources.files.digests(scope).items()))
        if self._services is not None:
            upstream.update(sorted(self._services.keys(scope.index).items()))
        params = digest_of_values(own)
        read = digest_of_values(upstream) if upstream else ""
        key = digest_of([self.family, params, read])
        if self.streams is not None:  # their items are in no key: another run's result never fits
            key = digest_of([key, self.sources.paths.run_id])
        part = read[:16]
        answers = None if self._services is None else self._services.answers(scope.index, key, part)
        if answers is not None:
            key, part = answers.key_with(answers.models)
        return key, (params[:16], part), reads, answers


def staging_of(site: Site, stage: Stage, shape: Shape) -> Staging:
    """Return the staging for the workers of a stage that moves data."""
    drains = tuple(name for name, output in stage.outputs.items() if output.drain)
    each_node: tuple[str, ...] = ()
    if shape.nodes:  # these nodes are not the worker's own
        own = stage.resources.launcher
        resources = Resources(nodes=shape.nodes, ranks=shape.nodes, ranks_per_node=1, launcher=own)
        each_node = launcher_words(site, shape.pool, resources)
    return Staging(Local(site.local.dir or "", site.local.size), each_node, drains)


def copies(inputs: Mapping[str, Any], names: set[str]) -> tuple[dict[str, Any], tuple[Item, ...]]:
    """Return inputs with placeholders for copies in place of some artifacts, and these artifacts."""
    items: dict[str, Item] = {}
    copied = {name: _copied(value, items) if name in names else value for name, value in inputs.items()}
    return copied, tuple(items.values())


def _copied(value: Any, items: dict[str, Item]) -> Any:
    if type(value) is Artifact:
        item = item_of(value, value.digest)
        items[item.key] = item
        return Artifact(item.below(AT_NODE), value.digest, value.inside, value.bytes)
    if isinstance(value, GatheredValues):
        return value.map(lambda part: _copied(part, items))
    return [_copied(part, items) for part in value] if isinstance(value, list) else value


class InputSplit:
    """The inputs of one stage that are split."""

    def __init__(self, stage: Stage, links: Mapping[str, Link], is_wanted: Callable[[int], bool]) -> None:
        """Find the split inputs. `is_wanted` tells whether `when` holds for a task."""
        self._is_wanted = is_wanted
        self._shared = {name: use for name, use in stage.inputs.items() if use.shard is not None}
        self._links = links
        self._parts: dict[Key, tuple[Group, dict[int, int]]] = {}

    def shards(self, index: int, inputs: Mapping[str, Any]) -> dict[str, Shard]:
        shards = {}
        for name, use in self._shared.items():
            assert use.shard is not None
            by, value = use.shard.by, inputs[name]
            listed = flat(value) if isinstance(value, list) else [value]
            digests = tuple(item.digest if type(item) is Artifact else "" for item in listed)
            # An array is split by its rows, so each task needs all of it: it is copied before.
            late = use.stage is not None and (isinstance(value, list) or os.path.isdir(str(value)))
            part, parts = self._part(self._links[name], index) if by == "task" else (0, 1)
            shards[name] = Shard(by, use.shard.seed, part, parts, digests if any(digests) else (), late)
        return shards

    def _part(self, link: Link, index: int) -> tuple[int, int]:
        """Return the number of this task among those that read the same input, and their count."""
        group = link.group_of_downstream(index)
        cached = self._parts.get(link.edge.key)
        if cached is None or cached[0] != group:
            tasks = filter(self._runs, link.dependents(group))  # omitted tasks would read their share
            cached = self._parts[link.edge.key] = group, {task: place for place, task in enumerate(tasks)}
        return cached[1].get(index, 0), len(cached[1])

    def _runs(self, index: int) -> bool:
        try:
            return self._is_wanted(index)
        except DielError:
            return True  # the task fails, and says why


def keyed(shards: Mapping[str, Shard]) -> dict[str, str]:
    """Return shards as they enter a key: another part or order makes another task."""
    return {
        f"shard of {name}": (f"task {shard.part} of {shard.parts}" if shard.by == "task" else "by rank")
        + f", seed {shard.seed}"
        for name, shard in shards.items()
    }


def environments_of_stage(stage: Stage, paths: RunPaths) -> Mapping[str, PreparedEnvironment] | None:
    """Return the environments that its tasks may name; None without any."""
    demanded = stage.chooses_environment
    if stage.environment is None and not demanded:
        return None
    envs = read_prepared(paths.environments)
    return envs if demanded else {name: env for name, env in envs.items() if name == stage.environment}


def environment_part(stage: Stage, paths: RunPaths) -> dict[str, str]:
    """Return the part of the cache key that all tasks of a stage share; none if each has its own."""
    if stage.environment is None or stage.chooses_environment:
        return {}
    envs = environments_of_stage(stage, paths) or {}
    return {"environment": envs[stage.environment].digest} if envs else {}


def keyed_by_task(stage: Stage, paths: RunPaths) -> Callable[[Mapping[str, Any]], dict[str, str]] | None:
    """Return what makes the environment's part of a key from a scope, where an expression chooses one: its
    name, for people, and its digest. None if all tasks have the same."""
    if not stage.chooses_environment:
        return None
    envs, chosen = read_prepared(paths.environments), parse(stage.demand[("environment",)])

    def keyed(scope: Mapping[str, Any]) -> dict[str, str]:
        name = str(chosen.value(scope))
        digest = f"{name} {envs[name].digest}" if name in envs else name
        return {"its environment": digest}  # no axis has this name

    return keyed
