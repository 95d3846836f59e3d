"""The mesh that a training is spread over: how many ranks share the data, the layers, and each layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

AXES = ("pipeline", "data", "tensor")
"""From the axis whose neighbours exchange least to that whose neighbours exchange most: ranks that follow
each other, which a launcher places side by side."""


@dataclass(frozen=True)
class Mesh:
    """A number of parts along each axis; their product is the number of ranks."""

    data: int = 1
    """Parts of each batch."""
    pipeline: int = 1
    """Groups of layers that follow each other."""
    tensor: int = 1
    """Parts of the layers that have a `tensor_plan`."""

    @classmethod
    def of(cls, written: Mapping[str, int] | None, ranks: int) -> Mesh:
        """The mesh that a user wrote, for so many ranks; `data` takes what the others leave.

        Raises ValueError for an axis that does not exist, and where the product is not the number of ranks.
        """
        written = written or {}
        unknown = sorted(written.keys() - set(AXES))
        if unknown:
            raise ValueError(f"mesh: expected data, pipeline and tensor; found {', '.join(unknown)}")
        if any(isinstance(parts, bool) or parts < 1 for parts in written.values()):
            raise ValueError(f"mesh: expected whole numbers from 1 on; found {dict(written)}")
        rest = written.get("pipeline", 1) * written.get("tensor", 1)
        mesh = cls(**{"data": max(1, ranks // rest), **written})
        if mesh.ranks != ranks:
            product = " × ".join(f"{axis} {parts}" for axis, parts in asdict(mesh).items())
            raise ValueError(
                f"mesh: {product} are {mesh.ranks} ranks, but the task has {ranks}: "
                f"write `resources: {{ranks: {mesh.ranks}}}`, or another mesh"
            )
        return mesh

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.data * self.pipeline * self.tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """In the order of AXES."""
        return self.pipeline, self.data, self.tensor

    def place(self, rank: int) -> Mesh:
        """Where a rank is: its number along each axis, from 0."""
        rest, tensor = divmod(rank, self.tensor)
        pipeline, data = divmod(rest, self.data)
        return Mesh(data, pipeline, tensor)
