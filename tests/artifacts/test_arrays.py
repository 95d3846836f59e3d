"""Arrays: written once as NumPy would, hashed on the way, read as memory maps, handed on without a copy."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import numpy
import pytest

from diel.base.errors import ModuleError
from diel.store.artifacts import Artifact, arrays, artifact, collect_returned, content
from diel.store.artifacts.arrays import open_array, open_arrays
from diel.workflow.models import Output

LARGE = numpy.arange(600_000, dtype=numpy.float64).reshape(200, 1000, 3)


def keep(task_dir: Path, array: Any, inputs: Any = None, **promise: Any) -> dict[str, Any]:
    promises = {"x": Output.model_validate(promise)} if promise else {}
    return collect_returned({"x": array}, task_dir, task_dir.parents[2], promises, inputs or {})[1]["x"]


def test_a_file_is_not_read_again_for_its_digest(task_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "file_content", None)
    monkeypatch.setattr(arrays, "file_content", None)
    assert len(keep(task_dir, LARGE)["digest"]) == 32


def test_a_tensor_is_taken_through_numpys_protocol(task_dir: Path) -> None:
    class Tensor:
        ndim = 1

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return numpy.ones(3)

    keep(task_dir, Tensor())
    assert numpy.load(task_dir / "x.npy").tolist() == [1, 1, 1]


def test_python_objects_are_refused(task_dir: Path) -> None:
    with pytest.raises(
        ModuleError, match="output 'x': it cannot be saved as an array: it holds Python objects"
    ):
        keep(task_dir, numpy.array([{}], dtype=object))


def test_what_is_masked_is_refused_for_its_file_would_not_show_it(task_dir: Path) -> None:
    with pytest.raises(ModuleError, match=r"output 'x': some of it is masked, .*: return x.filled"):
        keep(task_dir, numpy.ma.masked_array([1, 2], [False, True]))
    keep(task_dir, numpy.ma.masked_array([1, 2], [False, False]))
    assert numpy.load(task_dir / "x.npy").tolist() == [1, 2]


def test_an_array_is_read_as_a_map_that_nobody_can_write_to(tmp_path: Path) -> None:
    numpy.save(tmp_path / "x.npy", LARGE)
    array = open_array("x", str(tmp_path / "x.npy"))
    assert isinstance(array, numpy.memmap)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 0
    numpy.save(tmp_path / "none.npy", numpy.zeros((0, 3)))
    assert open_array("x", str(tmp_path / "none.npy")).shape == (0, 3)


@pytest.mark.parametrize(("name", "message"), [("x.csv", "ask for a Path"), ("x.npy", "holds no array")])
def test_what_is_no_array_is_not_read_as_one(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_text("1,2")
    with pytest.raises(ModuleError, match=rf"input 'x'.*{message}"):
        open_array("x", str(tmp_path / name))


def test_more_arrays_are_mapped_than_files_may_be_open(tmp_path: Path) -> None:
    numpy.save(tmp_path / "x.npy", numpy.zeros(3))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 100, hard))
    try:
        assert len(open_arrays("x", [str(tmp_path / "x.npy")] * 500)) == 500
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# --- handed on ----------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path) -> Artifact:
    path = tmp_path / "runs" / "w-1" / "tasks" / "up" / "0" / "x.npy"
    path.parent.mkdir(parents=True)
    numpy.save(path, LARGE)
    return Artifact(str(path), "the digest of its maker")


def test_an_input_that_is_returned_as_it_came_is_a_hard_link(task_dir: Path, source: Artifact) -> None:
    for inputs in ({"field": source}, {"all": [Artifact("/nowhere", "n"), source]}):
        (task_dir / "x.npy").unlink(missing_ok=True)
        entry = keep(task_dir, open_array("field", source), inputs)
        assert entry["path"] == "tasks/s/0/x.npy"
        assert entry["digest"] == "the digest of its maker"
        assert os.path.samefile(task_dir / "x.npy", source)


@pytest.mark.parametrize("change", ["part", "order", "type", "copy"])
def test_an_input_that_was_changed_is_written(task_dir: Path, source: Artifact, change: str) -> None:
    array = open_array("field", source)
    changed = {
        "part": array[1:],
        "order": array[::-1],
        "type": array.view(numpy.int64),
        "copy": numpy.array(array),
    }[change]
    entry = keep(task_dir, changed, {"field": source})
    assert not os.path.samefile(task_dir / "x.npy", source)
    numpy.testing.assert_array_equal(numpy.load(task_dir / "x.npy"), changed)
    assert entry["digest"] == content(task_dir / "x.npy")[1]


def test_a_map_that_may_have_been_written_to_is_no_input_any_more(task_dir: Path, source: Artifact) -> None:
    array = numpy.load(source, mmap_mode="c")
    array[0] = -1
    keep(task_dir, array, {"field": source})
    assert numpy.load(task_dir / "x.npy")[0, 0, 0] == -1


@pytest.mark.parametrize("name", ["x.npy", "own.npy"])
def test_an_array_that_the_module_mapped_itself_is_that_file(task_dir: Path, name: str) -> None:
    array = numpy.lib.format.open_memmap(task_dir / name, "w+", numpy.float64, (1000, 100))
    array[:] = 7
    entry = keep(task_dir, array)
    assert entry["path"] == f"tasks/s/0/{name}"
    assert (entry["size"], entry["digest"]) == content(task_dir / name)
    assert os.listdir(task_dir) == [name]


def test_a_part_of_a_map_of_its_own_replaces_the_file(task_dir: Path) -> None:
    array = numpy.lib.format.open_memmap(task_dir / "x.npy", "w+", numpy.float64, (1000, 100))
    array[:] = 7
    keep(task_dir, array[::2])
    assert numpy.load(task_dir / "x.npy").shape == (500, 100)
    assert array[999, 0] == 7


# --- finite numbers -----------------------------------------------------------------------------


def test_an_input_that_is_handed_on_is_held_to_the_promise_as_well(tmp_path: Path, task_dir: Path) -> None:
    path = tmp_path / "runs" / "w-1" / "x.npy"
    numpy.save(path, numpy.array([[1.0, numpy.inf]]))
    source = Artifact(str(path), "d")
    with pytest.raises(ModuleError, match=r"x\[0, 1\] is inf"):
        keep(task_dir, open_array("x", source), {"x": source}, finite=True)
    own = numpy.lib.format.open_memmap(task_dir / "own.npy", "w+", numpy.float64, (2, 2))
    own[1, 0] = numpy.nan
    with pytest.raises(ModuleError, match=r"x\[1, 0\] is nan"):
        keep(task_dir, own, finite=True)


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
