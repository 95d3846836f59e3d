"""The shared registry: hyperparameters of a run, and those that a project keeps for all its runs."""

from diel.registry.store import Change, append_change, current, read_changes, read_current
from diel.registry.values import Hyperparameters, Value, kept_values, resolve, typed

__all__ = [
    "Change",
    "Hyperparameters",
    "Value",
    "append_change",
    "current",
    "kept_values",
    "read_changes",
    "read_current",
    "resolve",
    "typed",
]
