"""`${{ }}` expressions: small, safe computations inside the texts of a workflow.

A text is parsed once into a Template, which is then evaluated for every task. The library
simpleeval walks the syntax tree; `syntax.py` decides what may stand in one: names, arithmetic,
comparison, and/or/not, `in`, indexing, `a if b else c`, literals and the functions of
`functions.py`. A dot reads a key of a mapping, never an attribute of a Python object, so that an
expression reaches data and nothing else.
"""

from diel.expressions.functions import FUNCTIONS
from diel.expressions.syntax import ExpressionError
from diel.expressions.template import Template, parse, parse_expression
from diel.expressions.text import plain, written
from diel.expressions.tree import Tree, parse_tree, walk

__all__ = [
    "FUNCTIONS",
    "ExpressionError",
    "Template",
    "Tree",
    "parse",
    "parse_expression",
    "parse_tree",
    "plain",
    "walk",
    "written",
]
