"""What expressions are worth, and how they fail, over one scope that tests share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from diel.workflow.expressions import ExpressionError, parse

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
