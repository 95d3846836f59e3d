"""docs/keys.md says of every field of the spec whether it is in the key: each is changed here, and held to that."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import diel.spec
from diel.attempt.bundle import Question
from diel.spec.model import SpecModel
from tests.controller.bench import Bench

SECTIONS: dict[str, tuple[str, ...]] = {
    "Stages": ("Stage",),
    "Inputs": ("Input", "Expected"),
    "Outputs": ("Output", "Exported", "Extracted", "Contract", "Expected"),
    "Streams, shards, templates": ("Stream", "Sharding", "Rendering"),
    "Services": ("Service", "Ready"),
    "Surrogates": ("Surrogate",),
    "Environments": ("Environment", "PythonPackages", "Container"),
    "Resources and failures": ("Resources", "Retries", "Policies", "Policy"),
    "Axes": ("AxisForm", "StaticForm", "FileForm", "Sample", "SampleRange"),
    "Searches and loops": ("Search", "Loop", "Sampler", "Pruner", "Named"),
    "Hyperparameters and the file": (
        "Hyperparameter",
        "Workflow",
        "Include",
        "Composed",
        "PartialStage",
        "Notify",
    ),
}


def table() -> dict[str, dict[str, str]]:
    """By section of the page, what it says of each field."""
    text = (Path(__file__).parents[1] / "docs" / "keys.md").read_text("utf-8")
    found: dict[str, dict[str, str]] = {}
    for section in text.split("\n## ")[1:]:
        rows = re.findall(r"^\| (`.*?`) \| (yes|no|by value) \|", section, re.MULTILINE)
        said = {name: word for names, word in rows for name in re.findall(r"`(\w+)`", names)}
        found |= {section.partition("\n")[0]: said} if said else {}
    return found


def models() -> Iterator[type[SpecModel]]:
    for one in pkgutil.walk_packages(diel.spec.__path__, "diel.spec."):
        importlib.import_module(one.name)
    todo: list[type[SpecModel]] = [*SpecModel.__subclasses__()]
    while todo:
        model = todo.pop()
        todo += model.__subclasses__()
        if model.__module__.startswith("diel.spec"):
            yield model


def test_every_field_of_every_model_is_in_the_table() -> None:
    said = table()
    assert {*said} == {*SECTIONS}
    for model in models():
        own = {
            field.alias or name
            for name, field in model.model_fields.items()
            if name in vars(model).get("__annotations__", {})
        }
        known = {
            name for section, names in SECTIONS.items() if model.__name__ in names for name in said[section]
        }
        assert own <= known, f"{model.__name__}: {sorted(own - known)}"


Changes = dict[str, Any]
BASE: Changes = {
    "hyperparameters": {"h": {"type": "int", "default": 1, "low": 0, "high": 9}},
    "axes": {"n": {"values": [1, 2]}, "m": {"range": 2}},
    "templates": {"t": {"env": {"T": "1"}}},
    "stages": {
        "up": {
            "over": ["n"],
            "command": "run",
            "outputs": {"v": {"value": "float", "units": "K"}, "f": "f.npy"},
        },
        "s": {"over": ["n"], "command": "run ${{ hp.h }} ${{ n }}", "inputs": {"v": "up.v"}},
        "asks": {"command": "run", "services": ["model"]},
        "model": {"module": "m:serve", "params": {"p": 1}, "service": {"ready": {"http": "/health"}}},
    },
}


def s(**changes: Any) -> Changes:
    return {"stages": {"s": changes}}


def reads(**changes: Any) -> Changes:
    return s(inputs={"v": {"from": "up.v", **changes}})


def gives(**changes: Any) -> Changes:
    return s(outputs={"o": {"path": "o.csv", **changes}})


def finds(**changes: Any) -> Changes:
    return s(outputs={"o": {"value": "float", "file": "o.csv", "column": "a", **changes}})


def axis(**form: Any) -> Changes:
    return {"axes": {"n": {"values": None, **form}}}


def drawn(**changes: Any) -> Changes:
    ranges = {"n": {"low": 0, "high": 1}}
    return axis(sample={"method": "sobol", "points": 2, "seed": 1, "parameters": ranges, **changes})


ASKS = {"module": "m:simulate", "command": None, "inputs": None, "params": {"x": "${{ n }}"}}


def asks(**changes: Any) -> Changes:
    return s(**ASKS, surrogate={"service": "model", "tolerance": 0.1, "outputs": ["y"], **changes})


def serves(**changes: Any) -> Changes:
    return {
        "stages": {
            "model": {"service": {"ready": {"http": "/health"}, **changes}},
            **s(services=["model"])["stages"],
        }
    }


def merged(base: Any, patch: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(patch, dict):
        return patch
    both = {**base, **{name: merged(base.get(name), value) for name, value in patch.items()}}
    return {name: value for name, value in both.items() if value is not None}


def split(how: Any) -> Changes:
    return s(over=["m"], command="run", inputs={"v": {"from": "up.v", "shard": how}})


NOTHING: Changes = {}
REAL: Changes = {"hyperparameters": {"h": {"type": "float", "default": 5.0}}}
SHAPED = merged(
    {"stages": {"up": {"outputs": {"f": {"path": "f.npy", "shape": ["*"]}}}}}, reads(**{"from": "up.f"})
)
CASES: dict[str, list[tuple[str, Changes, Changes]]] = {
    "Stages": [
        (
            "module",
            s(inputs=None, module="m:one", command=None),
            s(inputs=None, module="m:other", command=None),
        ),
        ("command", NOTHING, s(command="run -v ${{ hp.h }} ${{ n }}")),
        ("shell", NOTHING, s(shell="sh")),
        ("params", NOTHING, s(params={"p": 1})),
        ("env", NOTHING, s(env={"E": "1"})),
        ("files", NOTHING, s(files={"f": "data.txt"})),
        ("outputs", NOTHING, s(outputs={"o": "o.csv"})),
        ("inputs", NOTHING, s(inputs={"w": "up.v"})),
        ("over", NOTHING, axis(values=[3, 2])),
        ("services", NOTHING, s(services=["model"])),
        ("surrogate", s(**ASKS), asks()),
        ("publishes", merged(REAL, {"stages": {"up": {"publishes": {"h": "v"}}}}), REAL),
        ("extends", NOTHING, s(extends="t")),
        ("description", NOTHING, s(description="new")),
        ("kind", NOTHING, s(kind="training")),
        ("after", NOTHING, s(after=["up"])),
        ("when", NOTHING, s(when="n < 9")),
        ("resources", NOTHING, s(resources={"cores_per_rank": 1, "walltime": "1h"})),
        (
            "isolation",
            s(inputs=None, module="m:one", command=None),
            s(inputs=None, module="m:one", command=None, isolation="process"),
        ),
        ("retries", NOTHING, s(retries=3)),
        ("on", NOTHING, s(on={"oom": {"retries": 2}})),
        ("max_failures", NOTHING, s(max_failures=1)),
        ("hold", NOTHING, s(hold=False)),
        ("timeout", NOTHING, s(timeout="9m")),
        ("checkpoint", NOTHING, s(checkpoint=True)),
        ("grace", s(checkpoint=True), s(checkpoint=True, grace="9s")),
        ("service", serves(), serves(idle="9m")),
    ],
    "Inputs": [
        ("from", NOTHING, reads(**{"from": "up.f"})),
        ("at", reads(at={"n": 1}), reads(at={"n": 2})),
        (
            "missing",
            s(inputs={"v": "up.v"}, over=[], command="run"),
            s(inputs={"v": "up.f"}, over=[], command="run"),
        ),
        ("min_success", s(over=[], command="run"), s(over=[], command="run", inputs={"v": "up.f"})),
        ("shard", split(None), split("task")),
        ("units", NOTHING, reads(units="mK")),
        ("shape", SHAPED, merged(SHAPED, reads(**{"from": "up.f", "shape": ["*"]}))),
    ],
    "Outputs": [
        ("path", gives(), gives(path="p.csv")),
        ("inside", gives(path="o.h5"), gives(path="o.h5", inside="/g")),
        ("glob", gives(), s(outputs={"o": {"glob": "*.csv"}})),
        ("value", finds(), finds(value="int")),
        ("file", finds(), finds(file="p.csv")),
        ("match", finds(), s(outputs={"o": {"value": "float", "file": "o.csv", "match": "a (.)"}})),
        ("column", finds(), finds(column="b")),
        ("key", finds(), s(outputs={"o": {"value": "float", "file": "o.json", "key": "a"}})),
        ("pick", finds(), finds(pick="first")),
        ("columns", gives(), gives(columns={"a": "float"})),
        ("dtype", gives(path="o.npy"), gives(path="o.npy", dtype="float64")),
        ("shape", gives(path="o.npy"), gives(path="o.npy", shape=[3])),
        ("rows", gives(), gives(rows=3)),
        ("finite", gives(), gives(finite=True)),
        ("json", gives(path="o.json"), gives(path="o.json", json={"a": "float"})),
        ("files", gives(path="d"), gives(path="d", files=3)),
        ("units", gives(), gives(units={"a": "K"})),
        ("digest", gives(), gives(digest="stat")),
        ("export", gives(), gives(export="out${{ n }}.csv")),
    ],
    "Streams, shards, templates": [
        ("template", s(files={"t": {"template": "t1"}}), s(files={"t": {"template": "t2", "path": "t1"}})),
        ("path", s(files={"t": {"template": "t1"}}), s(files={"t": {"template": "t1", "path": "p"}})),
        ("seed", split("task"), split({"by": "task", "seed": 1})),
        ("by", split(None), split({"by": "task"})),
    ],
    "Services": [
        (name, serves(), serves(**{name: value}))
        for name, value in {
            "port": 9999,
            "ready": {"http": None, "tcp": True},
            "idle": "9m",
            "startup": "9m",
            "silence": "9m",
            "restarts": 5,
            "stop": "9s",
            "shared_cores": True,
        }.items()
    ],
    "Surrogates": [
        ("tolerance", asks(), asks(tolerance=0.2)),
        ("relative", asks(), asks(relative=True)),
        ("inputs", asks(), asks(inputs=["x"])),
        ("audit", asks(), asks(audit=0.5)),
        ("seed", asks(), asks(seed=7)),
        ("timeout", asks(), asks(timeout="9s")),
        ("service", asks(), {"stages": {**asks()["stages"], "model": {"params": {"p": 2}}}}),
    ],
    "Resources and failures": [
        *(
            (name, NOTHING, s(resources={name: value}))
            for name, value in {"memory": "9MiB", "walltime": "9m"}.items()
        ),
        *((name, NOTHING, s(resources={name: 1})) for name in ("ranks", "cores_per_rank")),
        ("limit", NOTHING, s(retries={"limit": 2})),
        ("backoff", NOTHING, s(retries={"limit": 2, "backoff": "9s"})),
        *(
            (name, NOTHING, s(on={name: {"retries": 1}}))
            for name in ("app", "oom", "node", "preempted", "launch")
        ),
    ],
    "Axes": [
        ("values", NOTHING, axis(values=[3, 4])),
        ("range", NOTHING, axis(range=[5, 7])),
        ("linspace", NOTHING, axis(linspace=[5, 7, 2])),
        ("logspace", NOTHING, axis(logspace=[1, 2, 2])),
        ("zip", NOTHING, axis(zip={"n": [5, 6]})),
        ("path", axis(file={"path": "a.csv"}), axis(file={"path": "b.csv"})),
        ("seed", drawn(), drawn(seed=2)),
        ("method", drawn(), drawn(method="uniform")),
        ("parameters", drawn(), drawn(parameters={"n": {"low": 0, "high": 2}})),
        ("description", NOTHING, axis(values=[1, 2], description="new")),
    ],
    "Hyperparameters and the file": [
        ("default", NOTHING, {"hyperparameters": {"h": {"default": 2}}}),
        ("low", NOTHING, {"hyperparameters": {"h": {"low": 1}}}),
        ("high", NOTHING, {"hyperparameters": {"h": {"high": 8}}}),
        ("log", {"hyperparameters": {"h": {"low": 1}}}, {"hyperparameters": {"h": {"low": 1, "log": True}}}),
        ("description", NOTHING, {"description": "new"}),
        ("shell", NOTHING, {"shell": "sh"}),
    ],
}


MODULE = """
import diel

@diel.module(kind="simulation")
def one(n: int) -> dict:
    return {"y": 1.0}

@diel.module(kind="simulation")
def other(n: int) -> dict:
    return {"y": 1.0}

@diel.module(kind="simulation")
def simulate(x: float) -> dict:
    return {"y": x}

@diel.module(kind="inference")
def serve(p: int) -> None:
    pass
"""


def key(folder: Path, changes: Changes, section: str) -> str:
    text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in merged(BASE, changes).items())
    bench = Bench(folder, text)
    for index, value in enumerate((1.0, 2.0)):
        place = bench.paths.root / "tasks" / "up" / str(index)
        place.mkdir(parents=True)
        numpy.save(place / "f.npy", [1.0])
        bench.done("up", index, v=value, f=Path(f"tasks/up/{index}/f.npy"))
    request = bench.resolve("s")
    if section == "Surrogates":
        assert isinstance(request.question, Question)
        return request.question.key
    return request.key


@pytest.fixture
def folder(workspace: Path) -> Path:
    (workspace / "modules").mkdir()
    (workspace / "modules" / "m.py").write_text(MODULE)
    for name, text in {"data.txt": "x", "t1": "1", "t2": "2", "a.csv": "n\n1\n", "b.csv": "n\n2\n"}.items():
        (workspace / name).write_text(text)
    return workspace


@pytest.mark.parametrize(
    ("section", "case"), [(name, case) for name, cases in CASES.items() for case in cases]
)
def test_a_field_is_in_the_key_as_the_table_says(
    folder: Path, section: str, case: tuple[str, Changes, Changes]
) -> None:
    field, before, after = case
    differ = key(folder, before, section) != key(folder, after, section)
    assert differ == (table()[section][field] != "no")
