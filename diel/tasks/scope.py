"""The names that the expressions of one task may read, each computed when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from diel.tasks.link import Link

if TYPE_CHECKING:
    from diel.tasks.recipe import Recipe


class Scope(Mapping[str, Any]):
    """The names that the expressions of one task may read."""

    def __init__(self, recipe: Recipe, index: int, inputs: Mapping[str, Any] | None = None) -> None:
        """`inputs` stand in for what the task reads, where they are given."""
        self.recipe = recipe
        self.index = index
        self.point = recipe.run.point(index)
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

    def _find(self, name: str) -> Any:
        recipe = self.recipe
        match name:
            case "hp":
                return recipe.registry(self.index)
            case "files":
                return recipe.files.paths(self)
            case "params":
                return {key: tree.value(self) for key, tree in recipe.params.items()}
            case "inputs":
                read = {key: recipe.read(link, self.index) for key, link in recipe.inputs.items()}
                return {**recipe.static_inputs(self.index), **read}
            case "outputs":
                return {key: template.text_value(self) for key, template in recipe.outputs.items()}
            case "task":
                stage = recipe.run.name
                attempt = recipe.run.history.attempts.get(self.index, 0) + 1
                task = f"{stage}/{self.index}"
                return {"id": task, "index": self.index, "attempt": attempt, "stage": stage}
            case "run":
                return {"id": recipe.paths.run_id, "dir": str(recipe.paths.root)}
        links = {output: link for (stage, output), link in recipe.data.items() if stage == name}
        if links:
            return _StageView(self, links)
        for axis, points in recipe.run.points.items():
            if axis == name:  # an axis with several parameters: its point as a mapping
                return {key: self.point[key] for key in points.parameters}
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        yield from self.point
        yield from ("hp", "files", "params", "inputs", "outputs", "task", "run")
        yield from {stage for stage, _ in self.recipe.data}

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _StageView(Mapping[str, Any]):
    """A stage in an expression: its outputs, by the edge rules."""

    def __init__(self, scope: Scope, links: Mapping[str | None, Link]) -> None:
        self._scope = scope
        self._links = links

    def __getitem__(self, output: str) -> Any:
        return self._scope.recipe.read(self._links[output], self._scope.index)

    def __iter__(self) -> Iterator[str]:
        return (output for output in self._links if output is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
