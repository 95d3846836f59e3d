"""What an expression may hold, what it is worth over a scope, and how it fails."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diel.base.errors import DielError
from diel.workflow.expressions import ExpressionError, parse
from tests.expressions.evaluating import SCOPE, failure, value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("temperature", 1.5),
        ("hp.hidden", 64),
        ("hp['hidden'] + 1", 65),
        ("hp.values", "a key like a method's name"),
        ("task.index", 7),
        ("2 * temperature + 1", 4.0),
        ("7 // 2 - 7 % 4 + 2 ** 3", 8),
        ("-count + +1", -2),
        ("1 < count <= 3", True),
        ("ready and nothing == null", True),
        ("nothing or 'else'", "else"),
        ("'arg' in name", True),
        ("4 not in [1, 2]", True),
        ("inputs.runs[-1]", "b c.csv"),
        ("inputs.runs[:1]", ["a.csv"]),
        ("inputs.table[1].x", 2),
        ("'hot' if temperature > 1 else 'cold'", "hot"),
        ("[1, [count], (4, 5)]", [1, [3], [4, 5]]),
        ("{'a': {'b': count}}", {"a": {"b": 3}}),
        ("'}}'", "}}"),
        ("'#'", "#"),
        ("true", True),
        ("[false, null, None, True]", [False, None, None, True]),
        ("max", 99),
    ],
)  # fmt: skip
def test_an_expression_has_the_value_that_a_reader_expects(text: str, expected: Any) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("a ${{ b", 2, "does not end"),
        ("${{ 'b }}", 0, "close the quote"),
        ("${{ }}", 4, "empty"),
        ("${{ a }} and ${{ 1 + }}", 20, "cannot be read"),
        ("${{ a = 1 }}", 6, "write =="),
        ("${{ a && b }}", 7, "write `and`"),
        ("${{ !a }}", 4, "write `not`"),
        ("${{ a | length }}", 4, "write `or`"),
        ("${{ class + 1 }}", 4, "word of Python"),
        ("é ${{ 'é' + foo(1) }}", 12, "unknown function 'foo'"),
        ("${{ sqr(2) }}", 4, "did you mean 'sqrt'?"),
        ("${{ a is null }}", 4, "write =="),
        ("${{ a # note }}", 6, "comment"),
        ("${{ 'a'\n.upper() }}", 4, "methods"),
        ("${{ f'{a}' }}", 4, "f-strings"),
        ("${{ [x for x in a] }}", 4, "comprehensions"),
        ("${{ \ud800 }}", 4, "character"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, offset: int, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.offset == offset
    assert words in str(caught.value)
    assert isinstance(caught.value, DielError)


@pytest.mark.parametrize(
    "text",
    [
        "().__class__.__bases__[0].__subclasses__()",
        "hp.__class__",
        "_secret",
        "__import__('os').system('true')",
        "open('/etc/passwd')",
        "eval('1')",
        "getattr(hp, 'keys')",
        "str.format('{0.__class__}', hp)",
        "'{0.__class__}'.format(hp)",
        "hp.keys()",
        "(lambda: 1)()",
        "[x for x in ().__class__.__mro__]",
        "{**hp}",
        "max(*inputs.runs)",
        "max(**hp)",
        "(x := 1)",
        "f'{hp.__class__}'",
        "b'bytes'",
        "1j",
        "...",
        "yield 1",
        "await hp",
        "{1, 2}",
        "1 << 9",
        "1; 2",
        "import os",
    ],
)
def test_an_expression_cannot_reach_python(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse("${{ " + text + " }}")


def test_a_dot_reads_keys_and_never_attributes() -> None:
    class Sneaky:
        secret = "seen"

    assert "has no 'parent'" in str(failure("${{ files.script.parent }}"))
    assert "has no 'upper'" in str(failure("${{ name.upper }}"))
    assert "has no 'secret'" in str(failure("${{ it.secret }}", {"it": Sneaky()}))
    assert "no 'secret'" in str(failure("${{ [it][0].secret }}", {"it": Sneaky()}))
    assert "unknown name 'sqrt'" in str(failure("${{ sqrt }}"))
    assert "unknown name 'sqrt'" in str(failure("${{ [sqrt] }}"))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 2000 + ")" * 2000,
        "-" * 9000 + "1",
        "1" + "+1" * 4000,
        "a" + ".b" * 4000 + "[0]",
        "[" * 150 + "]" * 150,
        "9" * 5000,
        "1 + " + " " * 10_000 + "1",
    ],
)
def test_an_expression_of_any_size_is_refused_at_once(text: str) -> None:
    start = time.process_time()
    failure("${{ " + text + " }}")
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("temprature", "unknown name 'temprature', in ${{ temprature }}; did you mean 'temperature'?"),
        ("hp.hiden", "'hp' has no 'hiden', in ${{ hp.hiden }}; did you mean 'hidden'?"),
        ("hp.hiden * 2", "'hp' has no 'hiden', in ${{ hp.hiden * 2 }}; did you mean 'hidden'?"),
        ("nothing.x", "'nothing' is null and has no 'x'"),
        ("inputs.runs.x", "'inputs.runs' is a list and has no 'x'"),
        ("1 / (count - 3)", "division by zero"),
        ("name + 1", "str"),
        ("inputs.runs[5]", "there is no item 5 in a list of 2"),
        ("hp[count]", "there is no key 3"),
        ("count[0]", "cannot take item 0 of a whole number"),
        ("sqrt(-1)", "outside the function's domain"),
        ("(-8) ** 0.5", "not a real number"),
        ("mean(1)", "expected a list, found a whole number"),
        ("int('x')", "int: cannot compute with 'x'"),
        ("int('1_000')", "int: cannot compute with '1_000'"),
        ("float('1_000')", "float: cannot compute with '1_000'"),
        ("1e308 * 10", "the result is a number beyond 1.8e308"),
        ("-1e308 - 1e308", "the result is a number beyond 1.8e308"),
        ("name < 1", "cannot compute with a text and a whole number"),
    ],
)
def test_what_cannot_be_computed_is_said_with_the_expression(text: str, words: str) -> None:
    error = failure("T=${{ " + text + " }}")
    assert words in str(error)
    assert error.offset == len("T=${{ ")
    assert text in str(error)


class Lazy(Mapping[str, Any]):
    """A scope that makes a value when asked, by an expression of its own."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getitem__(self, key: str) -> Any:
        self.asked.append(key)
        values: dict[str, Callable[[], Any]] = {"double": lambda: value("2 * count + 0"), "count": lambda: 5}
        return values[key]()

    def __iter__(self) -> Any:
        return iter(("double", "count"))

    def __len__(self) -> int:
        return 2


def test_a_lazy_scope_is_asked_for_what_is_read_only_and_may_evaluate_itself() -> None:
    scope = Lazy()
    assert value("double + count", scope) == 11
    assert scope.asked == ["double", "count"]
    assert value("false and double", scope) is False
    assert scope.asked == ["double", "count"]
    assert "did you mean 'count'?" in str(failure("${{ cont }}", scope))


def test_a_scope_needs_no_more_than_getitem() -> None:
    class Bare:
        def __getitem__(self, key: str) -> int:
            return {"x": 1}[key]

    assert value("hp.x + 1", {"hp": Bare()}) == 2
    assert "'hp' has no 'y'" in str(failure("${{ hp.y }}", {"hp": Bare()}))


def test_threads_do_not_mix_their_scopes() -> None:
    template = parse("${{ sum([x, x, x]) - x }}")
    wrong: list[Any] = []

    def work(number: int) -> None:
        wrong.extend(found for _ in range(2000) if (found := template.value({"x": number})) != 2 * number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


VOCABULARY = r"""${{ }} $${{ a hp . [ ] ( ) { } ' " 1 2.5 + - ** * % / , : max str range __class__ # = \ é
    if else in not and lambda name inputs.runs"""
TOKENS = st.sampled_from([*VOCABULARY.split(), " ", "\n"])


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.lists(TOKENS, max_size=14).map(" ".join) | st.lists(TOKENS, max_size=14).map("".join), st.booleans()
)
def test_no_text_gives_anything_but_a_value_or_an_expression_error(text: str, wrap: bool) -> None:
    text = "${{ " + text + " }}" if wrap else text
    problem: ExpressionError | None = None
    try:
        template = parse(text)
        template.value(SCOPE)
        template.shell(SCOPE)
    except ExpressionError as error:
        problem = error
    assert problem is None or (problem.message and 0 <= problem.offset <= len(text))


def test_nan_and_infinity_are_ordinary_numbers() -> None:
    assert math.isnan(value("float('nan')"))
    assert value("float('-inf')") == -math.inf
    with pytest.raises(ExpressionError, match=r"beyond 1\.8e308"):
        value("float('1e400')")
    assert value("-float('inf')") == -math.inf
