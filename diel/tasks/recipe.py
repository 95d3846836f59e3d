"""A recipe: how a stage's tasks are made from their points and inputs.

What is the same for all tasks is worked out once here; what differs is read through a scope that
computes only the names that an expression asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from diel.artifacts import digest_of
from diel.attempt.bundle import Question, Request, Staged
from diel.modules.catalogue import Module
from diel.staging.item import Item, Shard
from diel.tasks.key import digest_of_values
from diel.tasks.scope import Scope
from diel.tasks.service import ServiceLink
from diel.tasks.sharing import Sharing, keyed
from diel.tasks.sources import Sources
from diel.tasks.staging import copies
from diel.tasks.stream import StreamEnds
from diel.tasks.surrogate import asking_of


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
        sources: Sources,
        module: Module | None,
        parts: dict[str, str],
        streams: StreamEnds | None = None,
    ) -> None:
        """`parts` of the cache key are those that all tasks share; `streams` those of a stage in company."""
        stage = sources.run.spec
        self.sources = sources
        self.family_parts = parts
        self.family = digest_of([parts])
        self.streams = streams
        self._texts = sources.texts
        self._references = sources.texts.references
        self._sharing = Sharing(stage, sources.inputs)
        services = (link for link in sources.links if isinstance(link, ServiceLink))
        self._services = [link for link in services if not link.edge.optional]
        self._asking = asking_of(stage, module, sources.links)
        self._at_node = tuple(name for name, given in stage.inputs.items() if given.stage is not None)
        signature = None if module is None or module.signature.variadic else module.signature
        self._accepted = None if signature is None else {p.name for p in signature.parameters}

    def scope(self, index: int) -> Scope:
        """The names that the expressions of a task may read."""
        return Scope(self.sources, index)

    def is_wanted(self, index: int) -> bool:
        """Whether `when` holds for a task. Raises ExpressionError and MissingInput."""
        return self._texts.is_wanted(self.scope(index))

    def resolve(self, index: int) -> Resolved:
        """Everything about a task. Raises ExpressionError, MissingInput and ModuleError."""
        scope = self.scope(index)
        params = self._params(scope)
        inputs = scope["inputs"]
        outputs = self._texts.paths(scope)
        env = self._texts.env(scope)
        shards = self._shards(scope)
        key, parts = self._key(scope, shards)
        command = self._texts.command(scope)
        resolved = Resolved(params, inputs, command, outputs, env, key, parts, None, shards)
        if self.streams is not None:  # what came through streams is in no key: another run's never fits
            key = digest_of([key, self.sources.paths.run_id])
            resolved = replace(resolved, key=key, streams=self.streams(index))
        if self._services:
            resolved = replace(resolved, services=self._replicas(index))
        if self._asking is not None:
            question = self._asking.question(index, {**scope.point, **params}, key, parts)
            resolved = replace(resolved, question=question)
        return replace(resolved, staged=self._staged(index, resolved)) if self._at_node else resolved

    def _params(self, scope: Scope) -> dict[str, Any]:
        """The parameters of a task: its point's that its module takes, and what its stage says."""
        said, taken = scope["params"], self._accepted
        given = {n: v for n, v in scope.point.items() if n not in said and (taken is None or n in taken)}
        return {**given, **said}

    def _shards(self, scope: Scope) -> dict[str, Shard] | None:
        return self._sharing.shards(scope.index, scope["inputs"]) if self._sharing else None

    def _replicas(self, index: int) -> dict[str, range]:
        """The services that a task asks, with the task indices of their replicas."""
        return {link.up.name: link.replicas(link.group_of_downstream(index)) for link in self._services}

    def _staged(self, index: int, resolved: Resolved) -> Staged | None:
        """The task's texts once more, with copies on its node in the place of artifacts; None without any."""
        items: dict[str, Item] = {}
        shards = resolved.shards or {}
        names = [name for name in self._at_node if name not in shards or not shards[name].stage]
        inputs = {
            name: copies(value, items) if name in names else value for name, value in resolved.inputs.items()
        }
        if not items:
            return None
        scope = Scope(self.sources, index, inputs)
        env, command = self._texts.env(scope), self._texts.command(scope)
        return Staged(tuple(items.values()), self._params(scope), inputs, command, env)

    def own_files(self, index: int) -> dict[str, str]:
        """The files that a task has of its own, absolute. Raises ExpressionError and MissingInput."""
        return self.sources.files.own(self.scope(index))

    def reads(self, index: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """What enters a task's key by its name: its own values, and what it reads of others.

        Without its files and services. Raises ExpressionError, MissingInput and ModuleError.
        """
        scope = self.scope(index)
        return self._reads(scope, self._shards(scope))

    def _reads(self, scope: Scope, shards: dict[str, Shard] | None) -> tuple[dict[str, Any], dict[str, Any]]:
        own: dict[str, Any] = {**scope.point, **(keyed(shards) if shards else {})}
        taken: dict[str, Any] = dict(scope["inputs"])
        for chain in self._references:
            kept = own if self.sources.link_of(chain) is None else taken
            kept[".".join(chain)] = scope.read(chain)
        return own, taken

    def _key(self, scope: Scope, shards: dict[str, Shard] | None) -> tuple[str, tuple[str, str]]:
        own, taken = self._reads(scope, shards)
        own.update(self.sources.files.digests(scope))
        for link in self._services:  # what a service answers depends on what it reads
            taken[f"service {link.up.name}"] = link.key(link.group_of_downstream(scope.index))
        params = digest_of_values(own)
        read = digest_of_values(taken) if taken else ""
        return digest_of([self.family, params, read]), (params[:16], read[:16])
