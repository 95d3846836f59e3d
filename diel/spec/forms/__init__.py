"""The forms of an axis, each with the answers that others need."""

from diel.spec.forms.axis import Axis, Choice
from diel.spec.forms.loop import Loop
from diel.spec.forms.search import SAMPLERS, Search
from diel.spec.forms.written import AxisForm, StaticForm

__all__ = ["SAMPLERS", "Axis", "AxisForm", "Choice", "Loop", "Search", "StaticForm"]
