"""What does not fit the models becomes one message a place, with the key or value that was meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.workflow.load import examine
from diel.workflow.load.misfits import MEANINGS, check
from diel.workflow.models import Workflow

GOOD: dict[str, Any] = {"diel": 1, "name": "w", "stages": {"a": {"command": ["echo"]}}}


@pytest.mark.parametrize(
    ("change", "key", "message", "hint"),
    [
        ({"name": 3}, ("name",), "expected text, found 3", "put it in quotes"),
        ({"name": "a b"}, ("name",), "'a b' is not a name", "letters, digits"),
        ({"stages": {}}, ("stages",), "expected at least 1 entry, found none", ""),
        (
            {"stages": {"a": {"command": ["x"], "retries": "2"}}},
            ("stages", "a", "retries"),
            "found '2'",
            "write 2",
        ),
        (
            {"stages": {"a": {"command": ["x"], "inputs": {"i": {"from": "b.e", "missing": "null"}}}}},
            ("stages", "a", "inputs", "i", "missing"),
            "expected null, found 'null'",
            "write null, without quotes",
        ),
        ({"axes": {"t": {"values": 1}}}, ("axes", "t", "values"), "expected a list, found 1", "write [1]"),
        ({"hyperparams": {}}, ("hyperparams",), "unknown key", "did you mean 'hyperparameters'?"),
    ],
)
def test_a_misfit_says_what_was_expected_and_what_to_do(
    change: dict[str, Any], key: tuple[str, ...], message: str, hint: str
) -> None:
    _, (misfit,) = check({**GOOD, **change}, Workflow)
    assert misfit.key == key
    assert message in misfit.message
    assert hint in misfit.hint


def test_a_key_that_is_missing_is_asked_for_with_an_example() -> None:
    made, (misfit,) = check({"name": "w", "stages": GOOD["stages"]}, Workflow)
    assert made is None
    assert (misfit.message, misfit.hint) == ("the key 'diel' is missing", "begin the file with `diel: 1`")


def test_an_unknown_key_hides_nothing_and_the_rest_is_read() -> None:
    made, (misfit,) = check({**GOOD, "stages": {"a": {"cmd": ["echo"]}}}, Workflow)
    assert misfit.key == ("stages", "a", "cmd")
    assert made is not None
    assert made.stages["a"].command == ("echo",)


PLACES = {
    "resources": ("stages:\n  a:\n    command: [x]\n    resources: {%s: 1}\n", "stages.a.resources"),
    "stage": ("stages:\n  a:\n    command: [x]\n    %s: 1\n", "stages.a"),
    "top": ("%s: 1\nstages: {a: {command: [x]}}\n", ""),
    "axis": ("axes:\n  t: {%s: 1}\nstages: {a: {command: [x]}}\n", "axes.t"),
    "hyperparameter": (
        "hyperparameters:\n  h: {type: int, %s: 1}\nstages: {a: {command: [x]}}\n",
        "hyperparameters.h",
    ),
}


@pytest.mark.parametrize(
    ("place", "word", "meant"),
    [
        *(
            ("resources", word, "ranks")
            for word in ("ntasks", "procs", "np", "n", "mpiprocs", "NTASKS", "n-tasks")
        ),
        *(("resources", word, "memory") for word in ("mem", "ram", "memroy")),
        *(("resources", word, "walltime") for word in ("time", "time_limit", "wall_time", "time-limit")),
        *(("resources", w, "cores_per_rank") for w in ("ncpus", "cpus", "cpus_per_task", "threads", "cores")),
        *(("resources", word, "gpus_per_rank") for word in ("gpus", "ngpus")),
        *(("resources", word, "pool") for word in ("queue", "partition")),
        *(("stage", word, "after") for word in ("depends", "depends_on", "needs", "requires")),
        *(("stage", word, "over") for word in ("foreach", "matrix", "sweep", "axes")),
        *(("stage", word, "params") for word in ("parameters", "args", "parms")),
        *(("stage", word, "env") for word in ("vars",)),
        ("stage", "retry", "retries"),
        *(("top", word, "hyperparameters") for word in ("hparams", "params", "variables")),
        *(("axis", word, "linspace") for word in ("linspcae", "linear")),
        *(
            ("hyperparameter", word, meant)
            for word, meant in (("min", "low"), ("max", "high"), ("value", "default"))
        ),
    ],
)
def test_a_word_of_another_tool_suggests_diels(place: str, word: str, meant: str) -> None:
    body, key = PLACES[place]
    _, wrong = examine("diel: 1\nname: x\n" + body % word, Path("w.yaml"))
    hints = [p.hint for p in wrong if p.key == f"{key}.{word}".lstrip(".") and p.message == "unknown key"]
    assert hints == [f"did you mean '{meant}'?"]


@pytest.mark.parametrize("word", ["steps", "tasks", "jobs"])
def test_stages_by_another_name_are_checked_all_the_same(word: str) -> None:
    _, wrong = examine(f"diel: 1\nname: x\n{word}:\n  a: {{run: echo, retries: x}}\n", Path("w.yaml"))
    assert [p.key for p in wrong] == [word, f"{word}.a.run", f"{word}.a.retries"]


@pytest.mark.parametrize(("word", "meant"), [("cmd", "command"), ("run", "command"), ("script", "command")])
def test_a_command_by_another_name_is_taken_for_one(word: str, meant: str) -> None:
    found, wrong = examine(f"diel: 1\nname: x\nstages: {{a: {{{word}: echo}}}}\n", Path("w.yaml"))
    assert [p.hint for p in wrong] == [f"did you mean '{meant}'?"]
    assert found is not None
    assert found.spec.stages["a"].command == "echo"


def test_a_resource_in_the_stage_itself_is_sent_to_resources() -> None:
    _, wrong = examine("diel: 1\nname: x\nstages: {a: {command: [x], ntasks: 4}}\n", Path("w.yaml"))
    assert [p.hint for p in wrong] == ["'ranks' goes under `resources`: write resources: {ranks: …}"]


def test_a_word_that_nothing_is_near_lists_the_keys_that_there_are() -> None:
    _, wrong = examine("diel: 1\nname: x\nstages: {a: {command: [x], zzz: 4}}\n", Path("w.yaml"))
    assert wrong[0].hint.startswith("keys here: description, kind, module, command")


def test_no_word_stands_for_itself() -> None:
    assert all(word not in meant for word, meant in MEANINGS.items())
