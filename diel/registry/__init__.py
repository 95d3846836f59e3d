"""The shared registry: hyperparameters of a run, and those that a project keeps for all its runs."""

from diel.registry.store import Change as Change
from diel.registry.store import append_change as append_change
from diel.registry.store import current as current
from diel.registry.store import read_changes as read_changes
from diel.registry.store import read_current as read_current
from diel.registry.values import Hyperparameters as Hyperparameters
from diel.registry.values import Value as Value
from diel.registry.values import kept_values as kept_values
from diel.registry.values import resolve as resolve
from diel.registry.values import typed as typed
