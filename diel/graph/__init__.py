"""The stage graph: how stages depend on each other, before anything is known of their tasks."""

from diel.graph.build import build
from diel.graph.edge import Choice, Edge, Flaw, Key
from diel.graph.rules import parameters_of
from diel.graph.stage_graph import StageGraph

__all__ = ["Choice", "Edge", "Flaw", "Key", "StageGraph", "build", "parameters_of"]
