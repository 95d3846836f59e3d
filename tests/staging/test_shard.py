"""Inputs that are shared out: each item once an epoch, in an order that is the same everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import diel
from diel.base.errors import ModuleError
from diel.worker.staging.item import Local, Shard
from diel.worker.staging.shard import items_of, order, part_of


@given(st.integers(0, 200), st.integers(1, 40), st.integers(0, 2**40), st.integers(0, 50))
def test_each_item_comes_once_an_epoch_and_parts_differ_by_one(
    count: int, parts: int, seed: int, epoch: int
) -> None:
    dealt = [part_of(range(count), part, parts, seed, epoch) for part in range(parts)]
    assert sorted(item for part in dealt for item in part) == list(range(count))
    sizes = [len(part) for part in dealt]
    assert max(sizes) - min(sizes) <= 1


def test_the_order_is_what_it_always_was() -> None:
    assert order(10, seed=1, epoch=0) == [2, 3, 6, 4, 1, 8, 9, 7, 0, 5]
    assert order(10, seed=1, epoch=3) == [0, 2, 8, 3, 1, 6, 9, 4, 7, 5]


def test_another_epoch_or_seed_is_another_order() -> None:
    orders = [tuple(order(50, seed, epoch)) for seed in range(4) for epoch in range(4)]
    assert len(set(orders)) == 16


def test_a_part_that_there_is_none_of_is_refused() -> None:
    with pytest.raises(ModuleError, match="part 4 of 4: expected 0 to 3"):
        part_of(range(8), 4, 4, 0, 0)
    with pytest.raises(ModuleError, match="epoch -1"):
        part_of(range(8), 0, 4, 0, -1)


def test_a_directory_is_its_files_and_an_array_its_rows(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("b", "a", ".hidden", "inner/c"):
        (tmp_path / name).write_text("")
    assert items_of("x", str(tmp_path)) == [f"{tmp_path}/{name}" for name in ("a", "b", "inner/c")]
    numpy.save(tmp_path / "rows.npy", numpy.zeros((7, 3)))
    assert items_of("x", str(tmp_path / "rows.npy")) == range(7)
    assert items_of("x", [["a", "b"], ["c"]]) == ["a", "b", "c"]


def test_what_has_no_items_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY nonsense")
    numpy.save(tmp_path / "scalar.npy", numpy.array(1.0))
    for value, message in (
        (str(tmp_path / "bad.npy"), "is not an array file"),
        (str(tmp_path / "scalar.npy"), "is not an array with rows"),
        ("text.csv", "cannot be split: expected a list, a directory, or an array"),
        (1.5, "found float"),
    ):
        with pytest.raises(ModuleError, match=message):
            items_of("x", value)


def test_a_module_gets_its_ranks_part(tmp_path: Path) -> None:
    files = []
    for number in range(6):
        files.append(str(tmp_path / f"{number}.bin"))
        Path(files[-1]).write_text(str(number))
    seen: list[Path] = []
    for rank in range(4):
        context = diel.Context(
            task_dir=tmp_path,
            inputs={"shards": files},
            rank=rank,
            ranks=4,
            shards={"shards": Shard("rank", 1, digests=tuple(files), stage=True)},
            local=Local(str(tmp_path / "disk")),
        )
        part = context.shard("shards", epoch=3)
        assert all(path.is_relative_to(tmp_path / "disk") for path in part)
        seen += part
    assert sorted(path.read_text() for path in seen) == list("012345")


def test_a_module_that_asks_for_what_is_not_shared_out_is_told_so(tmp_path: Path) -> None:
    context = diel.Context(task_dir=tmp_path, inputs={"x": [1]}, shards={"y": Shard("rank")})
    with pytest.raises(ModuleError, match="input 'x' has no `shard` in the workflow; inputs with one: y"):
        context.shard("x")
