"""`${{ }}` expressions: what they give, what they refuse, and what a command makes of them."""

from __future__ import annotations

import math
import pickle
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diel.errors import DielError
from diel.expressions import (
    ExpressionError,
    Template,
    parse,
    parse_expression,
    parse_tree,
    walk,
)

SCOPE: dict[str, Any] = {
    "temperature": 1.5,
    "count": 3,
    "name": "argon",
    "ready": True,
    "nothing": None,
    "hp": {"hidden": 64, "values": "a key like a method's name"},
    "inputs": {"runs": ["a.csv", "b c.csv"], "table": [{"x": 1}, {"x": 2}]},
    "files": {"script": Path("/data/in.melt")},
    "task": {"index": 7},
    "max": 99,
}


def value(text: str, scope: Mapping[str, Any] = SCOPE) -> Any:
    return parse(f"${{{{ {text} }}}}").value(scope)


def failure(text: str, scope: Mapping[str, Any] = SCOPE) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse(text).value(scope)
    return caught.value


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
        ("ready and not nothing", True),
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
        ("max(count, 2) + min([4, 5]) + abs(-1)", 8),
        ("round(2.567, 1) + len(name)", 7.6),
        ("[sum([1, 2]), mean([1, 2]), sorted([2, 1]), int('4'), float(2)]", [3, 1.5, [1, 2], 4, 2.0]),
        ("[sqrt(4), exp(0), log(1), log10(100), floor(1.5), ceil(1.5)]", [2.0, 1.0, 0.0, 2.0, 1, 2]),
        ("[any([false, 1]), all([1, 0]), range(2), range(1, 6, 2)]", [True, False, [0, 1], [1, 3, 5]]),
        ("sorted([1, 3, 2], reverse=true)", [3, 2, 1]),
        ("max", 99),
        ("str(true) + str(null) + str(0.1)", "true0.1"),
        ("'ab' * 2 + 'c'", "ababc"),
        ("[0] * 3 + [1]", [0, 0, 0, 1]),
    ],
)  # fmt: skip
def test_an_expression_has_the_value_that_a_reader_expects(text: str, expected: Any) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_a_text_that_is_wholly_one_expression_keeps_its_type_and_another_is_a_text() -> None:
    assert parse("${{ count }}").value(SCOPE) == 3
    assert parse("${{count}}").value(SCOPE) == 3
    assert parse("n=${{ count }}").value(SCOPE) == "n=3"
    assert parse("${{ count }}${{ count }}").value(SCOPE) == "33"
    assert parse(" ${{ count }}").value(SCOPE) == " 3"
    assert parse("${{\n  count\n  + 1\n}}\n").value(SCOPE) == 4


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("true", "true"),
        ("1 > 2", "false"),
        ("null", ""),
        ("0.1", "0.1"),
        ("1e-7", "1e-07"),
        ("1e400", "inf"),
        ("12", "12"),
        ("name", "argon"),
        ("files.script", "/data/in.melt"),
        ("[1, true, 'é']", '[1, true, "é"]'),
        ("{'a': null}", '{"a": null}'),
    ],
)
def test_values_in_a_text_are_written_as_yaml_writes_them(expression: str, expected: str) -> None:
    assert parse(f"<${{{{ {expression} }}}}>").value(SCOPE) == f"<{expected}>"


def test_a_dollar_before_makes_a_literal() -> None:
    template = parse("$${{ a }} and $HOME }} ${ x }")
    assert template.constant
    assert template.value({}) == "${{ a }} and $HOME }} ${ x }"
    assert parse("$${{ ${{ count }}").value(SCOPE) == "${{ 3"


def test_references_are_the_longest_dotted_names_that_are_read() -> None:
    def references(text: str) -> set[tuple[str, ...]]:
        return set(parse(text).references)

    assert references("a ${{ train.loss }} ${{ temperature }}") == {("train", "loss"), ("temperature",)}
    assert references("${{ inputs.runs[count].x + hp['hidden'] }}") == {
        ("inputs", "runs"),
        ("count",),
        ("hp", "hidden"),
    }
    assert references("${{ max(1, true) }}") == set()
    assert references("${{ max }}") == {("max",)}
    assert references("no expression") == set()


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
        "9 ** 9 ** 9",
        "2 ** -99999999 + 10 ** 5000",
        "(10 ** 1000) * (10 ** 1000)",
        "'a' * 99999999",
        "[0] * 99999999",
        "[[0]] * 100",
        "range(10 ** 9)",
        "range(10 ** 30)",
        "'%999999999d' % 1",
        "round(5, -999999999)",
        "int('9' * 9999)",
        "exp(1000)",
        "9.0 ** 999",
        "(" * 2000 + ")" * 2000,
        "-" * 9000 + "1",
        "1" + "+1" * 4000,
        "a" + ".b" * 4000 + "[0]",
        "[" * 150 + "]" * 150,
        "9" * 5000,
        "1 + " + " " * 10_000 + "1",
    ],
)
def test_a_computation_that_would_never_end_is_refused_at_once(text: str) -> None:
    start = time.process_time()
    failure("${{ " + text + " }}")
    assert time.process_time() - start < 1


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
        ("mean([])", "an empty list has no mean"),
        ("int('x')", "invalid literal"),
        ("name < 1", "not supported"),
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


def test_a_template_survives_pickling() -> None:
    for text in ("${{ hp.hidden }}", "${{ 2 * count }}", "x ${{ name }}", "plain", "$${{ }}"):
        copy: Template = pickle.loads(pickle.dumps(parse(text)))
        assert copy == parse(text)
        assert copy.value(SCOPE) == parse(text).value(SCOPE)
    error = pickle.loads(pickle.dumps(failure("x ${{ unknown }}")))
    assert (error.message, error.offset) == ("unknown name 'unknown', in ${{ unknown }}", 6)


def test_a_condition_is_an_expression_with_or_without_its_braces() -> None:
    for text in ("temperature > 1", "${{ temperature > 1 }}", "  ${{ temperature > 1 }}\n"):
        template = parse_expression(text)
        assert template.value(SCOPE) is True
        assert template.references == {("temperature",)}
        assert pickle.loads(pickle.dumps(template)).value(SCOPE) is True
    for text in ("${{ a }} and ${{ b }}", "x ${{ a }}", "", "a >", "$${{ a }}"):
        with pytest.raises(ExpressionError):
            parse_expression(text)
    with pytest.raises(ExpressionError) as caught:
        parse_expression("  ${{ a > }}")
    assert caught.value.offset == 9


# ---------------------------------------------------------------- commands

HOSTILE = [
    "a b",
    "it's",
    'say "x"',
    "; rm -rf .",
    "line\nbreak",
    "$(touch pwned)",
    "`touch pwned`",
    "$HOME",
    "-rf",
    "é∂",
    "",
    "\\",
    "*",
    "# no",
    "${x}",
    "&& false",
    "!!",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "\t",
]


def test_a_list_gives_several_words_and_anything_else_one() -> None:
    assert parse("${{ inputs.runs }}").words(SCOPE) == ["a.csv", "b c.csv"]
    assert parse("${{ [] }}").words(SCOPE) == []
    assert parse("${{ [1, true, [2]] }}").words(SCOPE) == ["1", "true", "[2]"]
    assert parse("${{ temperature }}").words(SCOPE) == ["1.5"]
    assert parse("${{ nothing }}").words(SCOPE) == [""]
    assert parse("T=${{ temperature }}").words(SCOPE) == ["T=1.5"]
    assert parse("-v").words(SCOPE) == ["-v"]
    with pytest.raises(ExpressionError, match="NUL"):
        parse("${{ x }}").words({"x": "a\0b"})


@pytest.mark.parametrize(
    "command",
    [
        "printf '%s' ${{ x }}",
        'printf "%s" "${{ x }}"',
        "printf '%s' '${{ x }}'",
        "true && printf %s \\\n  ${{ x }}",
        "y=$(printf '%s.' ${{ x }}); printf %s \"${y%.}\"",
        "printf %s \"$(printf '%s.' \"${{ x }}\" | sed '$ s/[.]$//')\"; printf ''",
        "# it's a comment\nprintf '%s' ${{ x }}",
        "echo it\\'s >/dev/null; printf %s ${{ x }}",
    ],
)
def test_hostile_values_reach_a_program_byte_for_byte(command: str, tmp_path: Path) -> None:
    for text in HOSTILE:
        script = parse(command).shell({"x": text})
        done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=True)
        expected = text.rstrip("\n") if "$(" in command else text
        assert done.stdout == expected.encode(), script
        assert list(tmp_path.iterdir()) == []


def test_a_list_in_a_shell_command_gives_several_quoted_words() -> None:
    assert parse("cat ${{ inputs.runs }} >x").shell(SCOPE) == "cat a.csv 'b c.csv' >x"
    assert parse('echo "${{ inputs.runs }}"').shell(SCOPE) == 'echo ""\'a.csv b c.csv\'""'


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("true # ${{ x }}", "comment"),
        ("true \\\n# ${{ x }}", "comment"),
        ("echo `echo ${{ x }}`", "backticks"),
        ("cat <<EOF\n${{ x }}\nEOF", "here-document"),
        ("echo $((1 + ${{ x }}))", "arithmetic"),
        ("(( ${{ x }} ))", "arithmetic"),
        ("echo $[ ${{ x }} ]", "arithmetic"),
        ("echo ${y:-${{ x }}}", "${...}"),
        ("echo \\${{ x }}", "backslash"),
        ("echo $'a\\'b' ${{ x }}", "$'...'"),
        ('echo "$(case a in a) echo ;; esac; echo ${{ x }})"', "case"),
    ],
)
def test_a_value_is_refused_where_no_quoting_is_safe(command: str, words: str) -> None:
    template = parse(command)
    with pytest.raises(ExpressionError) as caught:
        template.check_shell()
    assert words in str(caught.value)
    assert caught.value.offset == command.index("x }}")
    with pytest.raises(ExpressionError):
        template.shell({"x": "1"})


def test_comments_and_arithmetic_beside_a_value_do_no_harm() -> None:
    script = "echo $((1 + 2)) # don't\necho \"`echo 1`\" a#b ${{ x }} <in # it's"
    assert parse(script).shell({"x": "a b"}) == script.replace("${{ x }}", "'a b'")


# ---------------------------------------------------------------- trees


def test_a_tree_gives_a_new_value_and_shares_what_is_constant() -> None:
    source = {
        "a": "${{ count }}",
        "b": [1, {"c": "T=${{ temperature }}"}],
        "constant": {"list": [1, 2], "text": "$${{ }}"},
        "path": "${{ files.script }}",
    }
    tree = parse_tree(source)
    first, second = tree.value(SCOPE), tree.value(SCOPE)
    assert first == {
        "a": 3,
        "b": [1, {"c": "T=1.5"}],
        "constant": {"list": [1, 2], "text": "${{ }}"},
        "path": "/data/in.melt",
    }
    assert first is not second
    assert first["constant"] is second["constant"]
    assert tree.references == {("count",), ("temperature",), ("files", "script")}
    assert not tree.constant
    assert parse_tree({"a": [1, "x"]}).constant
    assert parse_tree({"a": [1, "x"]}).value({}) == {"a": [1, "x"]}
    assert pickle.loads(pickle.dumps(tree)).value(SCOPE) == first


def test_walking_a_tree_finds_every_expression_and_every_error() -> None:
    found = dict(walk({"a": "${{ x }}", "b": ["plain", {"c": "${{ 1 + }}"}], "d": 3}))
    assert list(found) == [("a",), ("b", 1, "c")]
    good, bad = found.values()
    assert isinstance(good, Template)
    assert good.references == {("x",)}
    assert isinstance(bad, ExpressionError)
    with pytest.raises(ExpressionError):
        parse_tree(["${{ 1 + }}"])


# ---------------------------------------------------------------- whatever is written

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
    assert value("-float('inf')") == -math.inf
