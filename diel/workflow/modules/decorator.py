"""The decorator that makes a Python function a module.

    @diel.module(kind="simulation")
    def ising(size: int, temperature: float, context: diel.Context) -> Result: ...

The function stays an ordinary function: it can be called and tested without diel.
"""

from collections.abc import Callable
from typing import Literal, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

Kind = Literal["simulation", "training", "inference", "analysis"]


def module(*, kind: Kind) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Mark a function as a module of this kind. Its annotated parameters are what `params` and `inputs` of a
    stage may give; one annotated with `diel.Context` or `mpi4py.MPI.Comm` is filled in by diel. It returns a
    dict, a TypedDict or a dataclass: small JSON values become values, paths and arrays become artifacts."""

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        function.__diel_kind__ = kind  # type: ignore[attr-defined]
        return function

    return mark
