"""Files of arrays: written as NumPy would, and looked at on the way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy
import pytest

from diel.artifacts import collect_returned, content
from diel.errors import ModuleError
from diel.spec import Output

LARGE = numpy.arange(600_000, dtype=numpy.float64).reshape(200, 1000, 3)


def keep(task_dir: Path, array: Any, inputs: Any = None, **promise: Any) -> dict[str, Any]:
    promises = {"x": Output.model_validate(promise)} if promise else {}
    return collect_returned({"x": array}, task_dir, task_dir.parents[2], promises, inputs or {})[1]["x"]


@pytest.mark.parametrize(
    "array",
    [
        LARGE,
        numpy.asfortranarray(LARGE),
        LARGE[::3, ::-1],
        LARGE.transpose(1, 0, 2),
        LARGE[5],
        LARGE.astype(">f4")[::2],
        numpy.broadcast_to(numpy.float32(3), (300, 300)),
        numpy.array([("a", 1.5)] * 9000, dtype=[("name", "U5"), ("value", "f8")]),
        numpy.zeros((0, 3)),
        numpy.array(["2020-01-01"] * 20_000, dtype="datetime64[s]"),
        numpy.arange(10_000_000, dtype=numpy.float64),
    ],
    ids=[
        "c",
        "fortran",
        "strided",
        "transposed",
        "slice",
        "bytes",
        "broadcast",
        "fields",
        "none",
        "dates",
        "large",
    ],
)
def test_an_array_is_written_as_numpy_would_and_digested_like_its_file(task_dir: Path, array: Any) -> None:
    entry = keep(task_dir, array)
    path = task_dir / "x.npy"
    numpy.testing.assert_array_equal(numpy.load(path, allow_pickle=False), array)
    assert (entry["size"], entry["digest"]) == content(path)
    numpy.save(task_dir / "other.npy", array)
    assert entry["size"] == (task_dir / "other.npy").stat().st_size


def test_a_digest_by_stat_reads_nothing_and_sees_a_change(
    task_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.read", None)
    first = keep(task_dir, LARGE, digest="stat")["digest"]
    assert first.startswith(f"stat-{(task_dir / 'x.npy').stat().st_size}-")
    assert content(task_dir / "x.npy", "stat")[1] == first
    os.utime(task_dir / "x.npy", ns=(1, 1))
    assert content(task_dir / "x.npy", "stat")[1] != first
    whole = content(task_dir, "stat")[1]
    os.utime(task_dir / "x.npy", ns=(2, 2))
    assert whole.startswith("stat-")
    assert content(task_dir, "stat")[1] != whole


@pytest.mark.parametrize("size", [100, 100_000, 20_000_000])
@pytest.mark.parametrize("digest", ["content", "stat"])
def test_numbers_are_looked_at_while_they_are_written(task_dir: Path, size: int, digest: str) -> None:
    array = numpy.ones(size, dtype=numpy.float32)
    assert keep(task_dir, array, finite=True, digest=digest)["size"] == content(task_dir / "x.npy")[0]
    if digest == "content":
        assert keep(task_dir, array, finite=True)["digest"] == content(task_dir / "x.npy")[1]
    (task_dir / "x.npy").unlink()
    array[-1] = numpy.nan
    with pytest.raises(ModuleError, match=rf"output 'x': x\[{size - 1}\] is nan; expected a finite number"):
        keep(task_dir, array, finite=True, digest=digest)
    assert not list(task_dir.iterdir()), "half a file is of use to nobody"


@pytest.mark.parametrize("dtype", ["float16", "float32", ">f4", "float64", "longdouble", "complex64"])
@pytest.mark.parametrize("odd", [numpy.inf, -numpy.inf, numpy.nan])
def test_numbers_whose_sum_is_too_large_are_finite_all_the_same(
    task_dir: Path, dtype: str, odd: float
) -> None:
    array = numpy.full(100_000, numpy.finfo(dtype).max, dtype=dtype)
    keep(task_dir, array, finite=True)
    array[70_000] = odd
    with pytest.raises(ModuleError, match=r"x\[70000\] is .*; expected a finite number"):
        keep(task_dir, array, finite=True)
    array[:] = 1
    array[3:5] = -odd, odd
    with pytest.raises(ModuleError, match=r"x\[3\] is .*; expected a finite number"):
        keep(task_dir, array, finite=True)
