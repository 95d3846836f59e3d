"""Texts and JSON values with expressions in them: parsed once, evaluated over any scope."""

from __future__ import annotations

import pickle

import pytest

from diel.workflow.expressions import (
    ExpressionError,
    Template,
    names_in,
    parse,
    parse_expression,
    parse_tree,
    walk,
)
from tests.expressions.evaluating import SCOPE, failure


def test_a_text_that_is_wholly_one_expression_keeps_its_type_and_another_is_a_text() -> None:
    assert parse("${{ count }}").value(SCOPE) == 3
    assert parse("${{count}}").value(SCOPE) == 3
    assert parse("n=${{ count }}").value(SCOPE) == "n=3"
    assert parse("${{ count }}${{ count }}").value(SCOPE) == "33"
    assert parse(" ${{ count }}").value(SCOPE) == " 3"
    assert parse("${{\n  count\n  + 1\n}}\n").value(SCOPE) == 4


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


def test_the_names_in_a_condition_are_sorted_and_none_where_it_cannot_be_read() -> None:
    assert names_in("b.x > 1 and a < hp['h']") == [("a",), ("b", "x"), ("hp", "h")]
    assert names_in("a >") is None
    assert names_in(True) == []


def test_a_list_gives_several_words_and_anything_else_one() -> None:
    assert parse("${{ inputs.runs }}").words(SCOPE) == ["a.csv", "b c.csv"]
    assert parse("${{ [] }}").words(SCOPE) == []
    assert parse("${{ [1, true, [2]] }}").words(SCOPE) == ["1", "true", "[2]"]
    assert parse("${{ temperature }}").words(SCOPE) == ["1.5"]
    assert parse("${{ nothing }}").words(SCOPE) == ["null"]
    assert parse("-a=${{ nothing }}").words(SCOPE) == ["-a=null"]
    assert parse("T=${{ temperature }}").words(SCOPE) == ["T=1.5"]
    assert parse("-v").words(SCOPE) == ["-v"]
    with pytest.raises(ExpressionError, match="NUL"):
        parse("${{ x }}").words({"x": "a\0b"})


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
