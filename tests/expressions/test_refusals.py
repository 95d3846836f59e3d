"""Whatever a function or an operator is given, it answers in words of the field, at its place."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest

from diel.planning.check.gathers import UNKNOWN, VALUE, gathered, infer
from diel.workflow.expressions import ExpressionError, parse
from diel.workflow.expressions.expression import PLACES, parse_one
from diel.workflow.expressions.functions import FUNCTIONS, USAGE
from diel.workflow.expressions.gathered import GatheredValues
from diel.workflow.expressions.quantity import Quantity
from tests.expressions.evaluating import failure

TWO = [(0,), (1,)]
VALUES: dict[str, Any] = {
    "nothing": None,
    "text": "abc",
    "items": [1, 2],
    "mixed": [1, "a"],
    "empty": [],
    "table": {"a": 1},
    "nan": math.nan,
    "infinite": math.inf,
    "n": 2,
    "huge": 10**400,
    "yes": True,
    "time": Quantity(2.0, 0, 1),
    "many": GatheredValues([1.0, 2.0], ("x",), TWO),
    "texts": GatheredValues(["a", "b"], ("x",), TWO),
    "lists": GatheredValues([[1], [2]], ("x",), TWO),
    "gap": GatheredValues([None, 1], ("x",), TWO),
    "none": GatheredValues([], ("x",), []),
}
SAMPLES = {
    "items": [VALUE],
    "mixed": VALUE,
    "empty": UNKNOWN,
    "many": gathered(1.5, ("x",)),
    "texts": gathered("x", ("x",)),
    "lists": gathered([VALUE], ("x",)),
    "gap": gathered(VALUE, ("x",)),
    "none": gathered(VALUE, ("x",)),
}
PYTHON = re.compile(
    r"NoneType|Unknown|Gathered|Quantity|<class|<diel|<lambda>|_\w+\(|\b(str|int|float|list|dict|bool)\b['\"]"
    r"|object|operand|positional|unhashable|must be|iterable|supported|literal for|convert|requires|\bNone\b"
)
"""Words of Python's own messages."""


def uses() -> Iterator[str]:
    for name, value in itertools.product(FUNCTIONS, VALUES):
        if name == "along":
            yield f"along({value}, x)"
            continue
        yield f"{name}({value})"
        yield from (f"{name}({value}, {other})" for other in ("n", "text", "nothing", "items", "many", "nan"))
    for first, second in itertools.product(VALUES, VALUES):
        yield from (f"{first} {sign} {second}" for sign in ("+", "*", "/", "//", "%", "**", "==", "<", "in"))
    for value in VALUES:
        yield from (
            f"-{value}",
            f"not {value}",
            f"{value}[0]",
            f"{value}.a",
            f"items[{value}]",
            f"{value}[1:]",
        )
        yield from (f"{{{value}: 1}}", f"table[{value}]", f"1 if {value} else 2", f"{value}[items]")


@pytest.mark.parametrize("moment", ["run", "validate"])
def test_no_value_makes_an_expression_answer_in_words_of_python(moment: str) -> None:
    refusals: dict[str, ExpressionError] = {}
    for text in uses():
        try:
            expression = parse(f"${{{{ {text} }}}}").expressions[0]
            if moment == "run":
                expression.text_value({**VALUES, PLACES: {"x": [0, 1]}})
            else:
                infer(expression, lambda chain: SAMPLES.get(chain[0], VALUES[chain[0]]), ["x"])
        except ExpressionError as error:
            refusals[text] = error
    messages = {
        text: error.message.rpartition(", in ")[0] or error.message for text, error in refusals.items()
    }
    assert [item for item in messages.items() if PYTHON.search(item[1]) or item[1].endswith(": ")] == []
    assert min(error.offset for error in refusals.values()) == len("${{ ")
    assert len(messages) > 500


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("abs(nothing)", "abs: cannot compute with null", "`0 if nothing == null else nothing`"),
        ("abs('a')", "abs: cannot compute with a text", "write abs(number)"),
        ("abs(1, 2)", "abs: cannot compute with a whole number and a whole number", "write abs(number)"),
        ("join()", "join: cannot compute with nothing", "write join(list, between=' ')"),
        ("join(3)", "join: expected a list, found a whole number", "str(value) writes one value"),
        (
            "join([1], gap=2)",
            "join: cannot compute with a list and a whole number",
            "write join(list, between",
        ),
        ("int('a')", "int: cannot compute with 'a'", "write int(value, base=10)"),
        ("len(n)", "len: cannot compute with a whole number", "write len(list)"),
        ("'a' + n", "cannot compute with a text and a whole number", "str(n) makes a text of a number"),
        ("along([1, 2], x)", "along: nothing is gathered over 'x' here", "it gathers over: no axis"),
    ],
)
def test_a_refusal_says_what_to_write(text: str, message: str, hint: str) -> None:
    error = failure(f"${{{{ {text} }}}}", {"n": 3, "nothing": None})
    assert error.message.startswith(message)
    assert hint in error.hint


def test_each_function_has_its_usage() -> None:
    assert USAGE.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [("2 * 1e400", "a number beyond 1.8e308"), ("1e-400", "a number below 4.9e-324")],
)
def test_a_number_that_no_double_holds_cannot_be_written(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message) as raised:
        parse_one(f" {text} ", 3)
    assert raised.value.offset == 4 + text.index("1e")
