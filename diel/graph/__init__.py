"""The stage graph: how stages depend on each other, before anything is known of their tasks."""

from diel.graph.build import build as build
from diel.graph.gang import Gang as Gang
from diel.graph.gang import gangs as gangs
from diel.graph.stage_graph import Edge as Edge
from diel.graph.stage_graph import Published as Published
from diel.graph.stage_graph import StageGraph as StageGraph
from diel.graph.uses import hyperparameter_reads as hyperparameter_reads
from diel.spec.model import Key as Key
