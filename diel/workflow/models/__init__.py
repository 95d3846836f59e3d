"""The models of a workflow file: the only list of its keys."""

from diel.workflow.models.data import Input, Output
from diel.workflow.models.environment import Environment
from diel.workflow.models.forms import SAMPLERS, Axis, AxisForm, Choice, Loop, Search
from diel.workflow.models.hyperparameter import Hyperparameter
from diel.workflow.models.model import MAX_POINTS, SpecModel, Violation, Violations
from diel.workflow.models.policy import Resources, Rule
from diel.workflow.models.service import Ready, Service, Surrogate, never_ends
from diel.workflow.models.stage import Stage
from diel.workflow.models.workflow import Workflow
