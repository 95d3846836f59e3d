"""A compiled expression gives what the evaluator gives, or is not compiled."""

from __future__ import annotations

import pytest

from diel.expressions import parse
from diel.expressions.compiled import compiled

NAMES = {("n",): "a", ("axis", "n"): "a", ("task", "index"): "b"}


@pytest.mark.parametrize(
    "text",
    [
        "n",
        "axis.n * hp.k",
        "ceil(n / 2) + 1",
        "2GiB * n + 1KiB * task.index",
        "10m if n > 2 and not n == 4 else 1h",
        "n * 1GB / (100MB / 1s)",
        "2 ** n if n < 5 else 1 - n",
        "max(n, 3, task.index) % 4 // 2",
        "min(1h, 5m * n)",
        "abs(-n) + floor(n / 3) + round(n / 7)",
        "log2(n) + sqrt(n)",
        "n < 3 or n > 5",
        "hp.size * n",
    ],
)
def test_it_gives_what_the_evaluator_gives(text: str) -> None:
    template = parse("${{ " + text + " }}")
    known = {"hp": {"k": 3, "size": parse("${{ 1MiB }}").value({})}}
    made = compiled(template, NAMES, known)
    assert made is not None
    for n in range(1, 9):
        scope = {"n": n, "axis": {"n": n}, "task": {"index": 2 * n}, **known}
        (value,) = made.function([(n, 2 * n)])
        assert made.whole(value) == template.value(scope)


@pytest.mark.parametrize(
    "text", ["'a' + n", "len(n)", "n in [1, 2]", "hp.word", "2GiB + n", "sqrt(1GiB * n)", "[n][0]", "sum([n])", "1s ** n"]
)  # fmt: skip
def test_what_is_no_plain_computation_is_not_compiled(text: str) -> None:
    assert compiled(parse("${{ " + text + " }}"), NAMES, {"hp": {"word": "x"}}) is None
    assert compiled(parse("n: ${{ n }}"), NAMES, {}) is None
