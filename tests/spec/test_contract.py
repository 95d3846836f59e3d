"""What an output may promise: how it is written, kept, and what goes together."""

from __future__ import annotations

import pytest

from diel.workflow.models.contract import Contract, contract_flaws
from tests.spec.flawed import flaws_of


@pytest.mark.parametrize(
    ("written", "kept"), [(3, "==3"), ("3", "==3"), (">=100", ">=100"), ("< 010", "<10")]
)
def test_a_count_is_kept_with_its_sign(written: object, kept: str) -> None:
    assert Contract.model_validate({"rows": written}).rows == kept


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"rows": -1}, "expected a number, found -1", 'write 100, or ">=100"'),
        ({"files": True}, "expected a number, found true", ""),
        ({"dtype": "double"}, "unknown dtype 'double'", "write float64"),
        ({"dtype": "Int8"}, "unknown dtype 'Int8'", "write int8"),
        ({"dtype": "flot32"}, "unknown dtype 'flot32'", "did you mean 'float32'?"),
        ({"shape": [3, -1]}, "a negative size -1", 'write "*" for any size'),
        ({"shape": ["2n"]}, "'2n' is not a size", "a name such as n"),
        ({"units": "  "}, "empty units", "1 for a plain number"),
        ({"columns": {}}, "no columns", "name at least one"),
    ],
)
def test_what_is_no_promise_is_refused_with_what_to_write(
    given: dict[str, object], message: str, hint: str
) -> None:
    (flaw,) = flaws_of(Contract, given)
    assert flaw.message == message
    assert hint in flaw.hint


def test_what_is_promised_is_told_by_the_keys_of_the_file() -> None:
    contract = Contract.model_validate({"json": {"e": "float"}, "finite": True, "units": " K ", "rows": 1})
    assert contract.promises == ("units", "rows", "finite", "json")
    assert (contract.expectations, contract.units) == (("units",), "K")
    assert Contract().promises == ()


@pytest.mark.parametrize(
    ("given", "path", "glob", "value", "wrong"),
    [
        ({"rows": 1, "columns": {"a": "int"}, "finite": True}, "a.csv", None, None, []),
        ({"shape": [3]}, "a.csv", None, None, ["shape"]),
        ({"shape": [3]}, "${{ name }}", None, None, []),
        ({"json": {"e": "int"}}, "a.json", None, None, []),
        ({"rows": 1}, "a.json", None, None, ["rows"]),
        ({"units": "K", "finite": True}, "a.bin", None, None, ["finite"]),
        ({"files": 2}, "folder", None, None, []),
        ({"files": 2}, "a.csv", None, None, ["files"]),
        ({"files": 2}, None, "*.csv", None, []),
        ({"rows": 2}, None, "*.csv", None, ["rows"]),
        ({"units": "K"}, None, None, "float", []),
        ({"units": "K", "finite": True}, None, None, "str", ["units", "finite"]),
        ({"rows": 2}, None, None, "list", ["rows"]),
        ({"columns": {"a": "int"}, "dtype": "int8"}, "a.csv", None, None, ["dtype"]),
    ],
)
def test_a_promise_is_about_something_that_the_output_has(
    given: dict[str, object], path: str | None, glob: str | None, value: str | None, wrong: list[str]
) -> None:
    flaws = list(contract_flaws(Contract.model_validate(given), path, glob, value))
    assert [flaw.key for flaw in flaws] == [(name,) for name in wrong]
