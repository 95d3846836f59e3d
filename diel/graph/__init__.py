"""The stage graph: how stages depend on each other, before anything is known of their tasks."""

from diel.graph.build import build
from diel.graph.gang import Gang, gangs
from diel.graph.stage_graph import Edge, Published, StageGraph
from diel.graph.uses import hyperparameter_reads
from diel.spec.model import Key
