"""`${{ }}` expressions: small, safe computations inside the texts of a workflow.

A text is parsed once into a Template, which is then evaluated for every task. The library
simpleeval walks the syntax tree; `expression.py` decides what may stand in one: names, arithmetic,
comparison, and/or/not, `in`, indexing, `a if b else c`, literals and the functions of
`functions.py`. A dot reads a key of a mapping, never an attribute of a Python object, so that an
expression reaches data and nothing else.
"""

from diel.workflow.expressions.expression import ExpressionError
from diel.workflow.expressions.functions import FUNCTIONS, plain, written
from diel.workflow.expressions.syntax import JOINT
from diel.workflow.expressions.template import (
    Template,
    Tree,
    names_in,
    parse,
    parse_expression,
    parse_tree,
    reference_of,
    texts_in,
    walk,
)
