"""The models of a workflow file: the only list of its keys."""

from diel.spec.data import Input, Output
from diel.spec.forms import SAMPLERS, Axis, AxisForm, Choice, Loop, Search
from diel.spec.hyperparameter import Hyperparameter
from diel.spec.model import MAX_POINTS, Flaw, Flaws, SpecModel
from diel.spec.policy import Policies, Policy, Rule
from diel.spec.resources import Resources
from diel.spec.service import Ready, Service
from diel.spec.stage import Kind, Retries, Stage
from diel.spec.surrogate import Surrogate
from diel.spec.workflow import Workflow

__all__ = [
    "MAX_POINTS",
    "SAMPLERS",
    "Axis",
    "AxisForm",
    "Choice",
    "Flaw",
    "Flaws",
    "Hyperparameter",
    "Input",
    "Kind",
    "Loop",
    "Output",
    "Policies",
    "Policy",
    "Ready",
    "Resources",
    "Retries",
    "Rule",
    "Search",
    "Service",
    "SpecModel",
    "Stage",
    "Surrogate",
    "Workflow",
]
