"""What a task made: which values are taken, which files, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diel.artifacts import MAX_VALUES, collect_files, collect_result, collect_returned, content, digest_of
from diel.errors import ModuleError


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "w-1"


@pytest.fixture
def task_dir(run_dir: Path) -> Path:
    path = run_dir / "tasks" / "s" / "0"
    path.mkdir(parents=True)
    return path


Take = Callable[..., tuple[dict[str, Any], dict[str, dict[str, Any]]]]


@pytest.fixture
def take(task_dir: Path, run_dir: Path) -> Take:
    return lambda **outputs: collect_returned(outputs, task_dir, run_dir)


# --- values -------------------------------------------------------------------------------------


def test_nothing_returned_is_nothing_made(task_dir: Path, run_dir: Path) -> None:
    assert collect_returned(None, task_dir, run_dir) == ({}, {})


def test_a_dataclass_gives_one_output_a_field(task_dir: Path, run_dir: Path) -> None:
    @dataclasses.dataclass
    class Made:
        energy: float
        trace: Path

    (task_dir / "trace.csv").write_text("1\n")
    values, artifacts = collect_returned(Made(-1.5, task_dir / "trace.csv"), task_dir, run_dir)
    assert values == {"energy": -1.5}
    assert artifacts["trace"]["path"] == "tasks/s/0/trace.csv"


NUMPY = [
    (numpy.float64(0.1), 0.1, float),
    (numpy.float32(0.5), 0.5, float),
    (numpy.int64(3), 3, int),
    (numpy.uint8(3), 3, int),
    (numpy.bool_(True), True, bool),
    (numpy.str_("é"), "é", str),
    (numpy.array(2.5), 2.5, float),
]


@pytest.mark.parametrize(("given_", "value", "kind"), NUMPY, ids=lambda part: type(part).__name__)
def test_numpy_scalars_become_pythons(take: Take, given_: Any, value: Any, kind: type) -> None:
    values, artifacts = take(x=given_, nested={"list": [given_], "tuple": (given_, 1)})
    assert values == {"x": value, "nested": {"list": [value], "tuple": [value, 1]}}
    assert type(values["x"]) is type(values["nested"]["list"][0]) is kind
    assert artifacts == {}
    assert json.loads(json.dumps(values)) == values


def test_values_that_are_no_numbers_are_kept(take: Take) -> None:
    values, _ = take(a=math.nan, b=math.inf, c=numpy.float64("nan"))
    again = json.loads(json.dumps(values))
    assert math.isnan(again["a"])
    assert again["b"] == math.inf
    assert math.isnan(again["c"])


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        b"bytes",
        object(),
        1j,
        numpy.complex128(1j),
        numpy.longdouble(1),
        numpy.datetime64("2020-01-01"),
        [Path("x")],
        numpy.array([object()]),
        10**5000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_neither_json_nor_a_file_is_refused_by_name(take: Take, value: Any) -> None:
    with pytest.raises(ModuleError, match=r"output 'odd|the values cannot be written as JSON"):
        take(odd=value)


@pytest.mark.parametrize(
    ("returned", "message"),
    [(3, "returned a int"), ([1], "returned a list"), ({"a b": 1}, "named 'a b'"), ({1: 1}, "named 1")],
)
def test_only_named_outputs_are_taken(task_dir: Path, run_dir: Path, returned: Any, message: str) -> None:
    with pytest.raises(ModuleError, match=message):
        collect_returned(returned, task_dir, run_dir)


def test_values_beyond_a_mebibyte_belong_into_a_file(take: Take) -> None:
    quotes = len(json.dumps({"x": ""}))
    assert take(x="a" * (MAX_VALUES - quotes))[0]
    with pytest.raises(ModuleError, match=r"1048577 bytes of JSON; return a file's Path"):
        take(x="a" * (MAX_VALUES - quotes + 1))


# --- arrays -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array", [numpy.arange(6).reshape(2, 3), numpy.array(["a", "é"]), numpy.zeros(0), numpy.array([True])]
)
def test_an_array_becomes_a_file_that_numpy_reads(take: Take, run_dir: Path, array: Any) -> None:
    values, artifacts = take(field=array)
    assert values == {}
    path = run_dir / artifacts["field"]["path"]
    numpy.testing.assert_array_equal(numpy.load(path, allow_pickle=False), array)
    assert artifacts["field"]["size"] == path.stat().st_size


# --- files and directories ----------------------------------------------------------------------


def test_an_artifact_has_its_path_in_the_run_its_size_and_its_digest(take: Take, task_dir: Path) -> None:
    (task_dir / "sub").mkdir()
    (task_dir / "sub" / "x y;é.bin").write_bytes(b"abc")
    _, one = take(out=Path("sub/x y;é.bin"))
    _, other = take(out=task_dir / "sub" / "x y;é.bin")
    assert one == other
    assert (one["out"]["path"], one["out"]["size"]) == ("tasks/s/0/sub/x y;é.bin", 3)
    (task_dir / "sub" / "x y;é.bin").write_bytes(b"abd")
    assert take(out=Path("sub/x y;é.bin"))[1]["out"]["digest"] != one["out"]["digest"]


def test_a_directorys_digest_covers_its_files_and_their_names(tmp_path: Path) -> None:
    def made(name: str, files: dict[str, bytes]) -> tuple[int, str]:
        for path, data in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_bytes(data)
        return content(tmp_path / name)

    size, digest = made("one", {"a": b"1", "sub/b": b"23"})
    assert size == 3
    assert made("same", {"sub/b": b"23", "a": b"1"}) == (size, digest)
    others = [
        made("renamed", {"a": b"1", "sub/c": b"23"}),
        made("moved", {"a": b"1", "b": b"23"}),
        made("changed", {"a": b"1", "sub/b": b"24"}),
        made("swapped", {"a": b"23", "sub/b": b"1"}),
    ]
    assert len({digest, *(digest for _, digest in others)}) == 5


def test_a_file_larger_than_one_read_is_digested_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(3 * 1024 * 1024))
    size, digest = content(path)
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    assert size == 3 * 1024 * 1024
    assert content(path)[1] != digest


@pytest.fixture
def outside(tmp_path: Path, task_dir: Path) -> Path:
    """A secret, and ways out of the task's directory."""
    secret = tmp_path / "secret"
    secret.write_text("s")
    (task_dir / "link").symlink_to(secret)
    (task_dir / "up").symlink_to(tmp_path)
    (task_dir / "round").symlink_to("round")
    (task_dir.parent / "1").mkdir()
    (task_dir.parent / "1" / "other").write_text("o")
    return secret


@pytest.mark.parametrize("path", ["link", "up/secret", "../1/other", "/etc/passwd", "..", "up"])
def test_no_way_leads_out_of_the_tasks_directory(take: Take, outside: Path, path: str) -> None:
    with pytest.raises(ModuleError, match="is outside the task's directory"):
        take(out=Path(path))


@pytest.mark.parametrize("path", ["round", "a\0b", "nothing.csv", "nothing/x"])
def test_a_file_that_is_not_there_is_told_with_those_that_are(
    take: Take, outside: Path, task_dir: Path, path: str
) -> None:
    (task_dir / "energy.csv").touch()
    (task_dir / ".hidden").touch()
    with pytest.raises(ModuleError, match=r"no file '.*'; the task wrote energy.csv, link, round, up$"):
        take(out=Path(path))


def test_a_pipe_is_refused_and_not_waited_for(take: Take, task_dir: Path) -> None:
    os.mkfifo(task_dir / "pipe")
    with pytest.raises(ModuleError, match="neither a file nor a directory"):
        take(out=Path("pipe"))


def test_a_link_inside_the_task_is_an_artifact(take: Take, task_dir: Path) -> None:
    (task_dir / "step-9").write_text("x")
    (task_dir / "last").symlink_to("step-9")
    assert take(out=Path("last"))[1]["out"]["path"] == "tasks/s/0/last"


def test_an_artifacts_path_is_the_runs_own_however_it_was_named(
    tmp_path: Path, task_dir: Path, run_dir: Path
) -> None:
    """A scratch file system is often reached by a link: a module may name the file by either way."""
    (task_dir / "deep" / "er").mkdir(parents=True)
    (task_dir / "deep" / "x").write_text("right")
    (task_dir / "x").write_text("wrong")
    (task_dir / "way").symlink_to("deep/er")
    scratch = tmp_path / "scratch" / "mine"
    scratch.parent.mkdir()
    scratch.symlink_to(tmp_path / "runs")
    linked = scratch / "w-1"
    inside = task_dir.relative_to(run_dir)
    for path in (task_dir / "deep/x", linked / inside / "deep/x", Path("way/../x"), Path("deep/er/../x")):
        _, artifacts = collect_returned({"out": path}, linked / inside, linked)
        assert artifacts["out"]["path"] == "tasks/s/0/deep/x"
        assert (linked / artifacts["out"]["path"]).read_text() == "right"


def test_a_commands_declared_files_are_taken_or_missed(task_dir: Path, run_dir: Path) -> None:
    (task_dir / "a.csv").write_text("1")
    artifacts = collect_files({"a": "a.csv"}, task_dir, run_dir)
    assert artifacts["a"]["path"] == "tasks/s/0/a.csv"
    with pytest.raises(ModuleError, match=r"output 'b': no file 'b.csv'; the task wrote a.csv"):
        collect_files({"b": "b.csv"}, task_dir, run_dir)


# --- DIEL_RESULT --------------------------------------------------------------------------------


def test_a_commands_result_is_one_json_object(tmp_path: Path) -> None:
    path = tmp_path / "result"
    assert collect_result(str(path), {}) == {}
    path.write_text('{"x": 1, "more": [1.5, null], "y": 2}', encoding="utf-8")
    assert collect_result(str(path), {"x": "int", "y": "float"}) == {"x": 1, "more": [1.5, None], "y": 2}


@pytest.mark.parametrize(
    ("text", "types", "message"),
    [
        (b"[1]", {}, "holds list; expected one JSON object"),
        (b"3.5", {}, "holds float"),
        (b"", {}, "holds no JSON"),
        (b'{"x": 1', {}, "holds no JSON"),
        (b'{"x": 1}\n{"x": 2}', {}, "holds no JSON"),
        (b'{"x": "\xff"}', {}, "cannot be read"),
        (b'{"x":' * 100_000, {}, "holds no JSON"),
        (b"{}", {"x": "int"}, "did not write the value 'x'"),
        (None, {"x": "int"}, "did not write the value 'x'"),
        (b'{"x": 1.0}', {"x": "int"}, "value 'x': expected int, found 1.0"),
        (b'{"x": true}', {"x": "int"}, "expected int, found True"),
        (b'{"x": "1"}', {"x": "float"}, "expected float, found '1'"),
        (b'{"x": null}', {"x": "str"}, "expected str, found None"),
        (b'{"x": 1}', {"x": "bool"}, "expected bool"),
    ],
)
def test_a_result_that_is_not_what_was_declared_is_refused(
    tmp_path: Path, text: bytes | None, types: dict[str, str], message: str
) -> None:
    path = tmp_path / "result"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(ModuleError, match=message):
        collect_result(str(path), types)


def test_a_result_beyond_a_mebibyte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_text(json.dumps({"x": "a" * MAX_VALUES}))
    with pytest.raises(ModuleError, match="1 MiB"):
        collect_result(str(path), {})


# --- digests ------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: 1, 1.0 and true are three."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@given(JSON, JSON)
def test_digests_are_the_same_for_the_same_values_alone(one: Any, other: Any) -> None:
    assert (digest_of([one]) == digest_of([other])) == same(one, other)


@given(st.dictionaries(st.text(), JSON, min_size=2, max_size=5))
def test_the_order_of_keys_is_no_part_of_a_digest(values: dict[str, Any]) -> None:
    assert digest_of([values]) == digest_of([dict(reversed(values.items()))])


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (1, True), (1, "1"), (None, ""), ([1, 2], [12]), (["a", "b"], ["ab"])]
)
def test_values_that_look_alike_have_digests_of_their_own(one: Any, other: Any) -> None:
    assert digest_of([one]) != digest_of([other])


def test_a_name_that_is_no_utf8_has_a_digest() -> None:
    assert digest_of(["\udcff"]) != digest_of(["\ud800"])
