"""The models of a workflow file: the only list of its keys."""

from diel.spec.data import Input as Input
from diel.spec.data import Output as Output
from diel.spec.environment import Environment as Environment
from diel.spec.forms import SAMPLERS as SAMPLERS
from diel.spec.forms import Axis as Axis
from diel.spec.forms import AxisForm as AxisForm
from diel.spec.forms import Choice as Choice
from diel.spec.forms import Loop as Loop
from diel.spec.forms import Search as Search
from diel.spec.hyperparameter import Hyperparameter as Hyperparameter
from diel.spec.model import MAX_POINTS as MAX_POINTS
from diel.spec.model import SpecModel as SpecModel
from diel.spec.model import Violation as Violation
from diel.spec.model import Violations as Violations
from diel.spec.policy import Resources as Resources
from diel.spec.policy import Rule as Rule
from diel.spec.service import Ready as Ready
from diel.spec.service import Service as Service
from diel.spec.service import Surrogate as Surrogate
from diel.spec.service import never_ends as never_ends
from diel.spec.stage import Stage as Stage
from diel.spec.workflow import Workflow as Workflow
