"""What a module may ask its context."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import diel
from diel.base.errors import ModuleError
from diel.worker.context import Context


@pytest.fixture
def context(tmp_path: Path) -> Context:
    (tmp_path / "0").mkdir()
    return diel.Context(task_dir=tmp_path / "0")


def test_attempts_share_a_directory_for_checkpoints(context: Context) -> None:
    again = replace(context, task_dir=context.task_dir.with_name("0.2"), attempt=2)
    assert context.checkpoint_dir == again.checkpoint_dir
    assert context.checkpoint_dir.is_dir()


def test_time_runs_out(context: Context) -> None:
    assert context.time_left == float("inf")
    assert not context.interrupted
    short = replace(context, deadline=time.time() + 100, interrupt_at=time.time() - 1)
    assert 90 < short.time_left <= 100
    assert short.interrupted
    assert not replace(context, interrupt_at=time.time() + 100).interrupted


def test_the_first_rank_alone_writes_metrics(context: Context) -> None:
    context.report(epoch=1, loss=0.5)
    replace(context, rank=1, ranks=2).report(epoch=1, loss=0.7)
    context.report(epoch=2, loss=0.25)
    lines = [json.loads(line) for line in (context.task_dir / ".metrics.jsonl").read_text().splitlines()]
    assert [(line["epoch"], line["loss"]) for line in lines] == [(1, 0.5), (2, 0.25)]
    assert lines[0]["time"] <= lines[1]["time"]


def test_a_rank_is_a_member_of_its_own(context: Context) -> None:
    assert context.member == "test/0"
    assert replace(context, rank=3, ranks=4).member == "test/0.3"


def test_what_was_loaded_under_a_key_is_not_loaded_again(context: Context) -> None:
    loads = iter(["first", "second", "third"])
    a, b = (str(context.task_dir), "a"), (str(context.task_dir), "b")
    assert [context.cached(key, lambda: next(loads)) for key in (a, b, a)] == ["first", "second", "first"]


def _reader(path: str, *, half: bool = False) -> list[str]:
    return [path, "half" if half else "whole"]


def _enclosed(path: str) -> Callable[[], list[str]]:
    return lambda: _reader(path)


def _by_default(path: str) -> Callable[[], list[str]]:
    def load(of: str = path) -> list[str]:
        return _reader(of)

    return load


def _in_a_mapping(path: str) -> Callable[[], list[str]]:
    options = {"paths": [Path(path)]}
    return lambda: _reader(str(options["paths"][0]))


def _through_another(path: str) -> Callable[[], list[str]]:
    inner = _enclosed(path)
    return lambda: inner()


@pytest.mark.parametrize(
    "load",
    [
        _enclosed, _by_default, _in_a_mapping, _through_another, lambda path: partial(_reader, path),
        lambda path: partial(_reader, half=path == "b", path="a"),
    ],
)  # fmt: skip
def test_what_is_loaded_otherwise_is_another_object_under_the_same_key(
    context: Context, load: Callable[[str], Callable[[], list[str]]]
) -> None:
    key = str(context.task_dir), "model"
    a, b, again = (context.cached(key, load(path)) for path in ("a", "b", "a"))
    assert a is again
    assert a != b


def test_a_function_that_encloses_itself_loads(context: Context) -> None:
    def load(deep: int = 2) -> list[int]:
        return [deep, *load(deep - 1)] if deep else []

    assert context.cached((str(context.task_dir), "model"), load) == [2, 1]


def test_two_functions_of_one_file_share_no_key(context: Context) -> None:
    key = str(context.task_dir), "model"
    assert [context.cached(key, load) for load in (lambda: 1, lambda: 2, dict, list)] == [1, 2, {}, []]


def test_a_module_that_asks_for_what_its_stage_does_not_have_is_told_what_it_has(context: Context) -> None:
    known = replace(context, services={"serve": [0]})
    with pytest.raises(ModuleError, match="does not name 'surve' in its `services`, which are: serve"):
        known.service("surve")
    with pytest.raises(ModuleError, match=r"the tuple space is for stages that run beside others"):
        assert context.space
    with pytest.raises(ModuleError, match="samples"):
        context.stream("samples")


def test_outside_of_a_service_any_free_port_of_this_host_will_do(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (context.service_host, context.service_port, context.service_token) == ("127.0.0.1", 0, "")
    monkeypatch.setenv("DIEL_SERVICE_PORT", "4711")
    assert context.service_port == 4711
