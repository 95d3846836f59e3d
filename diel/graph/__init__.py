"""The stage graph: how stages depend on each other, before anything is known of their tasks."""

from diel.graph.build import build
from diel.graph.edge import Choice, Edge, Flaw, Key, Published
from diel.graph.rules import parameters_of
from diel.graph.stage_graph import StageGraph
from diel.graph.uses import hyperparameter_reads

__all__ = [
    "Choice",
    "Edge",
    "Flaw",
    "Key",
    "Published",
    "StageGraph",
    "build",
    "hyperparameter_reads",
    "parameters_of",
]
