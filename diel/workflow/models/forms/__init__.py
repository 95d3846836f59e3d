"""The forms of an axis, each with the answers that others need."""

from diel.workflow.models.forms.axis import Axis, Choice
from diel.workflow.models.forms.loop import Loop
from diel.workflow.models.forms.search import SAMPLERS, Search
from diel.workflow.models.forms.written import AxisForm, StaticForm

__all__ = ["SAMPLERS", "Axis", "AxisForm", "Choice", "Loop", "Search", "StaticForm"]
