"""`${{ }}` expressions: small, safe computations inside the texts of a workflow.

A text is parsed once into a Template, which is then evaluated for every task. The library
simpleeval walks the syntax tree; `expression.py` decides what may stand in one: names, arithmetic,
comparison, and/or/not, `in`, indexing, `a if b else c`, literals and the functions of
`functions.py`. A dot reads a key of a mapping, never an attribute of a Python object, so that an
expression reaches data and nothing else.
"""

from diel.expressions.expression import ExpressionError as ExpressionError
from diel.expressions.functions import FUNCTIONS as FUNCTIONS
from diel.expressions.functions import plain as plain
from diel.expressions.functions import written as written
from diel.expressions.syntax import JOINT as JOINT
from diel.expressions.template import Template as Template
from diel.expressions.template import Tree as Tree
from diel.expressions.template import names_in as names_in
from diel.expressions.template import parse as parse
from diel.expressions.template import parse_expression as parse_expression
from diel.expressions.template import parse_tree as parse_tree
from diel.expressions.template import reference_of as reference_of
from diel.expressions.template import texts_in as texts_in
from diel.expressions.template import walk as walk
