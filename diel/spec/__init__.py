"""The models of a workflow file: the only list of its keys."""

from diel.spec.data import Input, Output
from diel.spec.environment import Environment
from diel.spec.forms import SAMPLERS, Axis, AxisForm, Choice, Loop, Search
from diel.spec.hyperparameter import Hyperparameter
from diel.spec.model import MAX_POINTS, SpecModel, Violation, Violations
from diel.spec.policy import Resources, Rule
from diel.spec.service import Ready, Service, Surrogate, never_ends
from diel.spec.stage import Stage
from diel.spec.workflow import Workflow
