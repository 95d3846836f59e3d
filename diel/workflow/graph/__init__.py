"""The stage graph: how stages depend on each other, before anything is known of their tasks."""

from diel.workflow.graph.build import build
from diel.workflow.graph.gang import Gang, gangs
from diel.workflow.graph.stage_graph import Edge, PublishedHyperparameter, StageGraph
from diel.workflow.graph.uses import hyperparameter_reads
from diel.workflow.models.model import Key
