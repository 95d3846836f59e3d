"""The JSON Schema takes what the loader takes, and refuses what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from diel.workflow.load import examine, parse
from diel.workflow.schema import schema

VALIDATOR = Draft202012Validator(schema())
HEAD: dict[str, Any] = {"diel": 1, "name": "x", "stages": {"a": {"command": ["echo"]}}}


def read(path: Path) -> Any:
    return parse(path.read_text(encoding="utf-8"), path)[1]


def test_it_is_a_schema_of_its_draft() -> None:
    Draft202012Validator.check_schema(schema())
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema()["title"] == "diel workflow"


def test_every_key_is_described() -> None:
    for name, definition in schema()["$defs"].items():
        for each in definition.get("anyOf", [definition]):
            for key, field in each.get("properties", {}).items():
                assert field.get("description"), f"{name}.{key}"


def test_the_shipped_workflows_fit(root: Path) -> None:
    paths = sorted((root / "workflows").glob("*.yaml"))
    assert paths
    for path in paths:
        assert [error.message for error in VALIDATOR.iter_errors(read(path))] == []


GOOD = """
inputs: {x: a.y, z: {from: a.y, at: {t: 1}, min_success: 0.95}, h: {from: hp.hidden, at: {trial: best}}}
outputs: {f: f.csv, g: {path: g.csv}, v: {value: float}}
resources: {ranks: 2, memory: 4GiB, walltime: 10m}
retries: 2
timeout: "01:30:00"
env: {A: 1, B: true, C: x, D: 1.5}
when: ${{ t > 1 }}
params: {a: [1, {b: 2}], c: "${{ hp.hidden }}"}
"""


def test_short_forms_fit() -> None:
    stage = {"command": ["echo", 1, True, 1e-3], **yaml.safe_load(GOOD)}
    whole = {
        **HEAD,
        "stages": {
            "a": stage,
            "b": {"command": "echo", "retries": {"limit": 2, "backoff": "1s"}},
            "c": {"command": "echo", "outputs": {"items": {"stream": True}}},
            "d": {"command": "echo", "service": True},
        },
    }
    whole["axes"] = {
        "f": {"file": "points.csv"},
        "g": {"file": {"path": "points.csv", "columns": ["x"]}},
        "d": {"from": "a.f", "columns": ["x"]},
        "r": {"range": [0, 10, 2]},
        "z": {"zip": {"x": [1, 2], "y": {"linspace": [0, 1, 2]}}},
        "s": {"search": {"trials": 3, "minimize": "a.v", "parameters": ["hidden"]}},
    }
    whole["hyperparameters"] = {"hidden": {"type": "int", "default": 4, "low": 1, "high": 9}}
    assert [error.message for error in VALIDATOR.iter_errors(whole)] == []


SIZES = """
hyperparameters: {n: {type: int, default: 3}}
axes:
  a: {range: "${{ hp.n }}"}
  b: {range: [0, "${{ hp.n + 1 }}"]}
  c: {linspace: [0, "${{ hp.n }}", 5]}
  d: {logspace: "${{ [0, hp.n, 4] }}"}
  e: {values: "${{ [1, hp.n] }}"}
  f: {values: ["${{ 1 / 3 }}", 2]}
  g: {zip: {x: "${{ [1, hp.n] }}", y: {range: "${{ hp.n - 1 }}"}}}
  h: {sample: {method: lhs, points: "${{ hp.n }}", seed: "${{ hp.n }}", parameters: {u: {low: 0, high: "${{ hp.n }}"}}}}
  i: {search: {trials: "${{ hp.n }}", failures: "${{ hp.n }}", core_hours: "${{ hp.n }}", minimize: s.v, parameters: [m]}}
  j: {loop: {max: "${{ hp.n }}"}}
"""


def test_expressions_fit_where_the_loader_evaluates_them() -> None:
    stage = {"command": ["echo", "${{ hp.m }}"], "over": ["i"], "outputs": {"v": {"value": "float"}}}
    whole = {**HEAD, **yaml.safe_load(SIZES), "stages": {"s": stage}}
    whole["hyperparameters"]["m"] = {"type": "int", "low": 1, "high": 9}
    assert examine(yaml.safe_dump(whole), Path("w.yaml"))[1] == []
    assert [error.message for error in VALIDATOR.iter_errors(whole)] == []


@pytest.mark.parametrize(
    "change",
    [
        {"diel": 2},
        {"colour": "blue"},
        {"stages": {}},
        {"stages": {"a b": {"command": ["x"]}}},
        {"stages": {"a": {}}},
        {"stages": {"a": {"command": ["x"], "module": "m"}}},
        {"stages": {"a": {"command": ["x"], "retries": "often"}}},
        {"stages": {"a": {"command": ["x"], "resources": {"ntasks": 2}}}},
        {"axes": {"t": {}}},
        {"axes": {"t": {"values": [1], "range": 3}}},
        {"axes": {"t": {"linspace": [0, 1]}}},
        {"axes": {"t": {"range": "hp.n"}}},
        {"axes": {"t": {"linspace": [0, "1", 2]}}},
        {"axes": {"t": {"from": "a.f", "columns": "${{ hp.n }}"}}},
        {"axes": {"t": {"loop": {"max": "many"}}}},
        {"hyperparameters": {"h": {"type": "integer"}}},
    ],
)
def test_what_the_loader_refuses_does_not_fit(change: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(HEAD)
    assert not VALIDATOR.is_valid({**HEAD, **change})


REUSE = """
diel: 1
name: x
templates: {code: {command: [echo, 1e-3], env: {A: true}, timeout: 1h}}
include:
  a: relax.yaml
  b: {file: relax.yaml, axes: {m: [1, 2], n: size}, hyperparameters: {c: 4}, stages: {s: {timeout: null}}}
stages:
  s: {extends: code, timeout: null, resources: null}
"""


def test_reuse_fits_and_a_workflow_may_have_nothing_but_an_include() -> None:
    whole = yaml.safe_load(REUSE)
    assert [error.message for error in VALIDATOR.iter_errors(whole)] == []
    del whole["stages"]
    assert VALIDATOR.is_valid(whole)
    del whole["include"]
    assert not VALIDATOR.is_valid(whole)
