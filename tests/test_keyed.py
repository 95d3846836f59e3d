"""docs/keys.md says of every field of the spec whether it is in the key: each is changed here, and held to that."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import diel.workflow.models
from diel.worker.attempt.bundle import Question
from diel.workflow.models.forms.search import Pruner, Sampler
from diel.workflow.models.model import SpecModel
from tests.controller.bench import Bench

SECTIONS: dict[str, tuple[str, ...]] = {
    "Stages": ("Stage",),
    "Inputs": ("Input", "DataContract"),
    "Outputs": ("Output", "ExportTarget", "Extraction", "Contract", "DataContract"),
    "Streams, shards, templates": ("Stream", "Sharding", "Rendering"),
    "Services": ("Service", "Ready"),
    "Surrogates": ("Surrogate",),
    "Environments": ("Environment", "PythonPackages", "Container"),
    "Resources and failures": ("Resources", "Retries", "Policies", "Policy"),
    "Axes": ("AxisForm", "StaticForm", "FileForm", "Sample", "SampleRange"),
    "Searches and loops": ("Search", "Loop", "Sampler", "Pruner", "NamedChoice"),
    "Hyperparameters and the file": (
        "Hyperparameter",
        "Workflow",
        "Include",
        "ComposedWorkflow",
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
    for one in pkgutil.walk_packages(diel.workflow.models.__path__, "diel.workflow.models."):
        importlib.import_module(one.name)
    todo: list[type[SpecModel]] = [*SpecModel.__subclasses__()]
    while todo:
        model = todo.pop()
        todo += model.__subclasses__()
        if model.__module__.startswith("diel.workflow.models"):
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
Case = tuple[str, Changes, Changes]
"""The fields that change, and a workflow before and after it."""
BASE: Changes = {
    "hyperparameters": {name: {"type": "int", "default": 1, "low": 0, "high": 9} for name in "hg"},
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


def read_on(**changes: Any) -> Changes:
    reader = {"over": ["n"], "command": "read", "inputs": {"o": "s.o"}}
    changed: Changes = merged(gives(**changes), {"stages": {"reader": reader}})
    return changed


def finds(**changes: Any) -> Changes:
    return s(outputs={"o": {"value": "float", "file": "o.csv", "column": "a", **changes}})


def axis(**form: Any) -> Changes:
    return {"axes": {"n": {"values": None, **form}}}


def drawn(**changes: Any) -> Changes:
    ranges = {"n": {"low": 0, "high": 1}}
    return axis(sample={"method": "sobol", "points": 2, "seed": 1, "parameters": ranges, **changes})


ASKS = {"module": "m:simulate", "command": None, "inputs": None, "params": {"x": "${{ n }}"}}


def range_of(**changes: Any) -> Changes:
    return drawn(parameters={"n": {"low": 1, "high": 9, **changes}})


def derived(**changes: Any) -> Changes:
    makes = {"command": "run", "outputs": {"v": {"value": "list"}, "w": {"value": "list"}}}
    return {"axes": {"n": {"values": None, "from": "list.v", **changes}}, "stages": {"list": makes}}


def searched(**changes: Any) -> Changes:
    return {"axes": {"k": {"search": changes}}}


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
    both = {**base, **{name: merged(base.get(name, {}), value) for name, value in patch.items()}}
    return {name: value for name, value in both.items() if value is not None}


def searches(**changes: Any) -> Changes:
    """Return a stage over a search whose first trial is given, so that no sampler chooses it."""
    search = {
        "sampler": "random",
        "trials": 4,
        "seed": 1,
        "minimize": "s.y",
        "parameters": ["h", "g"],
        "enqueue": [{"h": 3, "g": 1}],
        **changes,
    }
    return {"axes": {"n": None, "k": {"search": search}}, "stages": SEARCHED}


SEARCHED: dict[str, Any] = {
    "up": None,
    "s": {
        "over": ["k"],
        "command": "run ${{ hp.h }} ${{ hp.g }}",
        "inputs": None,
        "outputs": {"y": {"value": "float"}, "z": {"value": "float"}},
    },
}


def chosen(*choices: int) -> Changes:
    return {"hyperparameters": {"h": {"type": "choice", "low": None, "high": None, "choices": choices}}}


def runs_in(environment: Changes) -> Changes:
    return {"environments": {"e": environment}, **s(environment="e")}


def contained(**changes: Any) -> Changes:
    return runs_in({"container": {"image": "./image", "runtime": "apptainer", **changes}})


def samples(**options: Any) -> Changes:
    return searches(sampler=options, enqueue=None if options["name"] == "pbt" else [{"h": 3, "g": 1}])


def prunes(**options: Any) -> Changes:
    return searches(watch="s.m", pruner=options)


def rounds(**changes: Any) -> Changes:
    return {"axes": {"n": None, "k": {"loop": {"max": 3, **changes}}}, "stages": SEARCHED}


def includes(**changes: Any) -> Changes:
    return {"include": {"part": {"file": "part.yaml", **changes}}}


def shares(count: int, **sharding: Any) -> Changes:
    return split({"by": "task", **sharding}) if count else split(None)


def split(how: Any) -> Changes:
    return s(over=["m"], command="run", inputs={"v": {"from": "up.v", "shard": how}})


def streams(beside: bool = False, **stream: Any) -> Changes:
    """Return a stage that hands items to another while it runs."""
    outputs = {"f": {"stream": {"buffer": 5, **stream}}}
    reader = {"over": ["n"], "command": "learn", "inputs": {"f": "s.f"}}
    return {"stages": {"s": {"outputs": outputs}, "reader": reader}}


def goes_on(first: float) -> Changes:
    """Return a stage that reads its own value of the round before, and at first a given one."""
    own = {"from": "s.y", "at": {"k": "previous"}, "initially": first}
    return {**rounds(), "stages": {**SEARCHED, "s": {**SEARCHED["s"], "inputs": {"v": None, "y": own}}}}


def tells(**changes: Any) -> Changes:
    return {"notify": [merged({"mail": "a@b"}, changes)]}  # of the site


def served_anew(**changes: Any) -> Changes:
    """Return a service that reads what a loop makes."""
    train = {"over": ["k"], "command": "train", "outputs": {"w": {"value": "float"}}}
    model = {"module": "m:learn", "inputs": {"v": {"from": "train.w", "at": {"k": "last"}}}}
    loop = {"axes": {"k": {"loop": {"max": 3}}}, "stages": {"train": train, "model": model}}
    changed: Changes = merged(serves(**changes), loop)
    return changed


def reads_stream(**changes: Any) -> Changes:
    feed = {"over": ["n"], "command": "feed", "outputs": {"f": {"stream": True}}}
    changed: Changes = merged(
        {"stages": {"feed": feed}}, s(inputs={"v": None, "f": {"from": "feed.f", **changes}})
    )
    return changed


NOTHING: Changes = {}
POOL = {"resources": {"nodes": 1, "ranks_per_node": 1}}
REAL: Changes = {"hyperparameters": {"h": {"type": "float", "default": 5.0}}}
TABLE = merged(
    {"stages": {"up": {"outputs": {"f": {"path": "f.csv", "columns": {"a": "float"}}}}}},
    reads(**{"from": "up.f"}),
)
SHAPED = merged(
    {"stages": {"up": {"outputs": {"f": {"path": "f.npy", "shape": ["*"]}}}}}, reads(**{"from": "up.f"})
)
TYPED = merged(SHAPED, {"stages": {"up": {"outputs": {"f": {"dtype": "float64"}}}}})
BESIDE = {"stages": {"feed": {"over": ["n"], "command": "feed"}}}
OPTIONS: dict[str, Any] = {
    "share": 0.3,
    "factor": 1.5,
    "qmc_type": "halton",
    "percentile": 9.0,
    "crossover_prob": 0.5,
    "swapping_prob": 0.1,
    "mutation_prob": 0.2,
    "resample": 0.1,
    "reduction_factor": 5,
}
"""Another value of an option of samplers and pruners; 9 or true of the others."""


def options_of(model: type[Sampler | Pruner], make: Callable[..., Changes]) -> Iterator[Case]:
    """Yield a case for each sampler or pruner: all of its options change together."""
    for name, options in model.options.items():
        fields = [option for option in options if name != "cmaes" or option == "with_margin"]
        is_truth = {option: "bool" in str(model.model_fields[option].annotation) for option in fields}
        needs = {"percentile": 5.0} if name == "percentile" else {}
        values = {option: OPTIONS.get(option, True if is_truth[option] else 9) for option in fields}
        yield " ".join(fields), make(name=name, **needs), make(name=name, **{**needs, **values})


CASES: dict[str, list[Case]] = {
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
        ("beside", BESIDE, merged(BESIDE, s(beside=["feed"]))),
        ("environment", NOTHING, runs_in({"variables": {"A": "1"}})),
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
        ("dtype", TYPED, merged(TYPED, reads(**{"from": "up.f", "dtype": "float64"}))),
        ("columns", TABLE, merged(TABLE, reads(**{"from": "up.f", "columns": {"a": "float"}}))),
        ("share", reads_stream(), reads_stream(share=True)),
        ("stage", SHAPED, merged(SHAPED, reads(**{"from": "up.f", "stage": "node"}))),
        ("initially", goes_on(1), goes_on(2)),
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
        ("keep", read_on(), read_on(keep=False)),
        ("stream", streams(), streams(buffer=9)),
        ("drain", streams(), streams()),
    ],
    "Streams, shards, templates": [
        ("template", s(files={"t": {"template": "t1"}}), s(files={"t": {"template": "t2", "path": "t1"}})),
        ("path", s(files={"t": {"template": "t1"}}), s(files={"t": {"template": "t1", "path": "p"}})),
        ("seed", split("task"), split({"by": "task", "seed": 1})),
        ("by", split(None), split({"by": "task"})),
        ("buffer", streams(), streams(buffer=9)),
        ("replay", streams(), streams(replay=True)),
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
    ]
    + [
        ("replicas", serves(shared_cores=True), serves(shared_cores=True, replicas=2)),
        ("reload", served_anew(), served_anew(reload=True)),
        ("http", serves(), serves(ready={"http": "/well"})),
        ("tcp", serves(), serves(ready={"http": None, "tcp": True})),
        ("log", serves(ready={"http": None, "log": "up"}), serves(ready={"http": None, "log": "here"})),
    ],
    "Surrogates": [
        ("tolerance", asks(), asks(tolerance=0.2)),
        ("relative", asks(), asks(relative=True)),
        ("inputs", asks(), asks(inputs=["x"])),
        ("audit", asks(), asks(audit=0.5)),
        ("seed", asks(), asks(seed=7)),
        ("timeout", asks(), asks(timeout="9s")),
        ("outputs", asks(), asks(outputs=["y", "z"])),
        ("service", asks(), {"stages": {**asks()["stages"], "model": {"params": {"p": 2}}}}),
    ],
    "Environments": [
        *(
            (field, runs_in({"variables": {"A": "1"}}), runs_in({"variables": {"A": "1"}, field: value}))
            for field, value in {
                "modules": ["gcc/13"],
                "setup": ["export B=1"],
                "spack": ["gromacs"],
                "conda": "./conda",
                "container": {"image": "./image", "runtime": "apptainer"},
                "description": "new",
            }.items()
        ),
        ("variables", runs_in({"variables": {"A": "1"}}), runs_in({"variables": {"A": "2"}})),
        ("python", runs_in({"variables": {"A": "1"}}), runs_in({"python": "none.txt"})),
        ("image", contained(), contained(image="./image2")),
        ("runtime", contained(), contained(runtime="singularity")),
        ("mounts", contained(), contained(mounts=["/data"])),
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
        ("timeout", s(timeout="9m"), s(timeout="9m", on={"timeout": {"retries": 1}})),
        ("retries", s(on={"app": {"backoff": "1s"}}), s(on={"app": {"backoff": "1s", "retries": 2}})),
        ("exclude", NOTHING, s(on={"node": {"exclude": True}})),
        ("nodes", s(resources={"ranks": 2}), s(resources={"ranks": 2, "nodes": 1})),
        ("ranks_per_node", s(resources={"ranks": 2}), s(resources={"ranks": 2, "ranks_per_node": 2})),
        ("pool", NOTHING, s(resources={"pool": "other"})),
        ("gpus_per_rank", NOTHING, s(resources={"gpus_per_rank": 1})),
        ("launcher", s(resources={"ranks": 1}), s(resources={"ranks": 1, "launcher": "openmpi"})),
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
        ("points", drawn(method="lhs"), drawn(method="lhs", points=4)),
        ("sample", axis(values=[0.5, 0.7]), drawn()),
        ("low", drawn(), drawn(parameters={"n": {"low": 0.5, "high": 1}})),
        ("high", drawn(), drawn(parameters={"n": {"low": 0, "high": 2}})),
        ("log", range_of(), range_of(log=True)),
        ("type", range_of(), range_of(type="int")),
        ("file", axis(values=[1]), axis(file="b.csv")),
        ("columns", axis(file={"path": "a.csv"}), axis(file={"path": "a.csv", "columns": {"n": "str"}})),
        ("from", derived(), derived(**{"from": "list.w"})),
        ("loop", axis(values=[5, 6]), axis(loop={"max": 2})),
        ("search", searches(), searches(enqueue=[{"h": 4, "g": 1}])),
    ],
    "Searches and loops": [
        ("sampler trials parallel seed", searches(), searches(sampler="tpe", trials=9, parallel=3, seed=2)),
        ("minimize", searches(), searches(minimize="s.z")),
        ("maximize", searches(), searches(minimize=None, maximize="s.y")),
        ("pruner name", searches(), prunes(name="median")),
        ("name", samples(name="random"), samples(name="tpe")),
        ("watch", prunes(name="median"), merged(prunes(name="median"), searched(watch="s.o"))),
        ("enqueue", searches(), searches(enqueue=[{"h": 3, "g": 1}, {"h": 4}])),
        ("constraints", searches(), searches(constraints=["s.z <= 1"])),
        ("startup", searches(sampler="tpe"), searches(sampler="tpe", startup=3)),
        ("population", searches(sampler="nsga2"), searches(sampler="nsga2", population=3)),
        (
            "until failures timeout core_hours",
            searches(),
            searches(until="s.y < 1", failures=1, timeout="9m", core_hours=1),
        ),
        ("until", rounds(), rounds(until="s.y < 1")),
        ("parameters", searches(parameters=["h"], enqueue=[{"h": 3}]), searches()),
        ("max", rounds(), rounds(max=4)),
        ("warm_start", searches(sampler="tpe"), searches(sampler="tpe", warm_start="project")),
        *(
            (option, samples(name="cmaes"), samples(name="cmaes", **{option: True}))
            for option in ("lr_adapt", "use_separable_cma")
        ),
        *options_of(Sampler, samples),
        *options_of(Pruner, prunes),
    ],
    "Hyperparameters and the file": [
        ("default", NOTHING, {"hyperparameters": {"h": {"default": 2}}}),
        ("low", NOTHING, {"hyperparameters": {"h": {"low": 1}}}),
        ("high", NOTHING, {"hyperparameters": {"h": {"high": 8}}}),
        ("log", {"hyperparameters": {"h": {"low": 1}}}, {"hyperparameters": {"h": {"low": 1, "log": True}}}),
        ("description", NOTHING, {"description": "new"}),
        ("shell", NOTHING, {"shell": "sh"}),
        ("seed", drawn(seed=None), {**drawn(seed=None), "seed": 7}),
        ("hyperparameters", NOTHING, {"hyperparameters": {"h": {"default": 2}}}),
        ("axes", NOTHING, axis(values=[3])),
        ("stages", NOTHING, s(command="other")),
        ("templates", s(extends="t"), {**s(extends="t"), "templates": {"t": {"env": {"T": "2"}}}}),
        ("environments", runs_in({"variables": {"A": "1"}}), runs_in({"variables": {"A": "2"}})),
        ("include", includes(), includes(stages={"a": {"command": "other"}})),
        ("file", includes(), includes(file="other.yaml")),
        ("type", NOTHING, {"hyperparameters": {"h": {"type": "float", "default": 1}}}),
        ("step", NOTHING, {"hyperparameters": {"h": {"step": 1}}}),
        ("choices", chosen(1, 2), chosen(1, 2, 3)),
        ("when", NOTHING, {"hyperparameters": {"g": {"when": "hp.h > 0"}}}),
        ("name", {"name": "w"}, {"name": "other"}),
        ("mail", NOTHING, tells()),
        ("smtp sender on after", tells(), tells(smtp="smtp://a", sender="b@c", on=["held"], after="9m")),
        *(
            (way, NOTHING, tells(mail=None, **{way: value}))
            for way, value in {"webhook": "https://a", "command": ["a"], "apprise": "ntfy://a"}.items()
        ),
    ],
}
PART = "diel: 1\nname: part\nstages: {a: {command: run}}\n"
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

@diel.module(kind="inference")
def learn(p: int, v: float) -> None:
    pass
"""
SITE = "name: local\nscheduler: local\npools: {here: {cores: 4}, other: {cores: 4, gpus: 2}}\n"


def key(folder: Path, changes: Changes, section: str) -> str:
    shutil.rmtree(folder / "runs", ignore_errors=True)  # streams put the run's name into keys
    notify = json.dumps(changes.get("notify", []))
    (folder / "schedulers" / "local.yaml").write_text(f"{SITE}notify: {notify}\n")
    document = merged({"name": "w", **BASE}, {**changes, "notify": None})
    text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in document.items())
    bench = Bench(folder, text)
    if "list" in bench.stages.runs:
        bench.done("list", v=[1.0, 2.0], w=[3.0, 4.0])
    for index in range(3 if "train" in bench.stages.runs else 0):
        bench.done("train", index, w=1.0)
    for index, value in enumerate((1.0, 2.0)):
        place = bench.paths.root / "tasks" / "up" / str(index)
        place.mkdir(parents=True)
        numpy.save(place / "f.npy", [1.0])
        if "up" in bench.stages.runs:
            bench.done("up", index, v=value, f=Path(f"tasks/up/{index}/f.npy"))
    request = bench.resolve("part.a" if "include" in changes else "s")
    if section == "Surrogates":
        assert isinstance(request.question, Question)
        return request.question.key
    return request.key


@pytest.fixture
def folder(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (workspace / "modules").mkdir()
    (workspace / "modules" / "m.py").write_text(MODULE)
    for name in ("conda/conda-meta", "image", "image2/etc", "bin"):
        (workspace / name).mkdir(parents=True)
    for program in ("apptainer", "singularity"):
        (workspace / "bin" / program).write_text("#!/bin/sh\n")
        (workspace / "bin" / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{workspace / 'bin'}:{os.environ['PATH']}")
    (workspace / "schedulers").mkdir()
    texts = {
        "none.txt": "",
        "part.yaml": PART,
        "other.yaml": PART.replace("run", "other"),
        "data.txt": "x",
    }
    for name, text in {**texts, "t1": "1", "t2": "2", "a.csv": "n\n1\n", "b.csv": "n\n2\n"}.items():
        (workspace / name).write_text(text)
    return workspace


def test_every_field_of_the_table_is_changed() -> None:
    changed = {name: {field for case in cases for field in case[0].split()} for name, cases in CASES.items()}
    unchanged = {name: {*said} - changed[name] for name, said in table().items()}
    assert {name: fields for name, fields in unchanged.items() if fields} == {
        "Hyperparameters and the file": {"diel"},  # it has one value
        "Environments": {"requirements", "version"},  # tests/test_environments.py installs packages
    }


@pytest.mark.parametrize(
    ("section", "case"), [(name, case) for name, cases in CASES.items() for case in cases]
)
def test_a_field_is_in_the_key_as_the_table_says(folder: Path, section: str, case: Case) -> None:
    fields, before, after = case
    differ = key(folder, before, section) != key(folder, after, section)
    answers = {table()[section][field] != "no" for field in fields.split()}
    assert answers == {differ}
