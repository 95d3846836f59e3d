"""The names that the expressions of one task may read, each computed when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from diel.tasks.link import Link
from diel.tasks.sources import MissingInput, Sources


class Scope(Mapping[str, Any]):
    """The names that the expressions of one task may read."""

    def __init__(self, sources: Sources, index: int, inputs: Mapping[str, Any] | None = None) -> None:
        """`inputs` stand in for what the task reads, where they are given."""
        self.sources = sources
        self.index = index
        self.point = sources.run.point(index)
        self._known: dict[str, Any] = {} if inputs is None else {"inputs": inputs}

    def __getitem__(self, name: str) -> Any:
        if name in self.point:
            return self.point[name]
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def read(self, chain: tuple[str, ...]) -> Any:
        """The value of a dotted name, as far as it goes through mappings."""
        value: Any = self
        for name in chain:
            if not isinstance(value, Mapping):
                return value
            value = value[name]
        return value

    def along(self, link: Link) -> Any:
        """What the task reads along an edge. Raises MissingInput."""
        return self.sources.read(link, self.index, self)

    def hyperparameter_inputs(self) -> dict[str, Any]:
        """The inputs that are hyperparameters of the task itself. Raises MissingInput without a value."""
        for name in self.sources.own_inputs.values():
            if name not in self["hp"]:
                raise MissingInput(f"hp.{name} has no value: give it a default, or --set hp.{name}=VALUE")
        return {label: self["hp"][name] for label, name in self.sources.own_inputs.items()}

    def _find(self, name: str) -> Any:
        sources = self.sources
        match name:
            case "hp":
                return sources.registry(self.index, self)
            case "files":
                return sources.files.paths(self)
            case "params":
                return {key: tree.value(self) for key, tree in sources.texts.params.items()}
            case "inputs":
                read = {key: self.along(link) for key, link in sources.inputs.items()}
                return {**self.hyperparameter_inputs(), **read}
            case "outputs":
                return {key: template.text_value(self) for key, template in sources.texts.outputs.items()}
            case "task":
                stage = sources.run.name
                attempt = sources.run.history.attempts.get(self.index, 0) + 1
                task = f"{stage}/{self.index}"
                return {"id": task, "index": self.index, "attempt": attempt, "stage": stage}
            case "run":
                return {"id": sources.paths.run_id, "dir": str(sources.paths.root)}
        links = {output: link for (stage, output), link in sources.made.items() if stage == name}
        if links:
            return _StageView(self, links)
        for axis, points in sources.run.points.items():
            if axis == name:  # an axis with several parameters: its point as a mapping
                return {key: self.point[key] for key in points.parameters}
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        yield from self.point
        yield from ("hp", "files", "params", "inputs", "outputs", "task", "run")
        yield from {stage for stage, _ in self.sources.made}

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _StageView(Mapping[str, Any]):
    """A stage in an expression: its outputs, by the edge rules."""

    def __init__(self, scope: Scope, links: Mapping[str | None, Link]) -> None:
        self._scope = scope
        self._links = links

    def __getitem__(self, output: str) -> Any:
        return self._scope.along(self._links[output])

    def __iter__(self) -> Iterator[str]:
        return (output for output in self._links if output is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
