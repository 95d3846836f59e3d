"""When an attempt is asked to save and when it is stopped; what fits into a block."""

from __future__ import annotations

from typing import Any

import pytest

from diel.worker.attempt.block import MARGIN, BlockHere, Limits, limits_of, own_block, pin_gpus, with_hosts
from diel.worker.attempt.bundle import Work


def work(**keys: Any) -> Work:
    whole: dict[str, Any] = {
        "stage": "s",
        "module": None,
        "values": {},
        "timeout": None,
        "launcher": (),
        "threads": 1,
    }
    return Work(**{**whole, **keys})


BLOCK = BlockHere("1-0", 1000.0)


@pytest.mark.parametrize(
    ("keys", "block", "deadline", "interrupt"),
    [
        ({}, None, None, None),
        ({"timeout": 10.0}, None, 110, None),
        ({"walltime": 10.0, "checkpoint": True}, None, None, None),
        ({}, BLOCK, 1000, None),
        ({"walltime": 300.0}, BLOCK, 400, None),
        ({"walltime": 300.0, "timeout": 20.0}, BLOCK, 120, None),
        ({"checkpoint": True}, BLOCK, 1000, 940),
        ({"checkpoint": True, "walltime": 300.0}, BLOCK, 400, 340),
        ({"checkpoint": True, "walltime": 300.0, "grace": 20.0}, BLOCK, 400, 380),
        ({"checkpoint": True, "walltime": 40.0}, BLOCK, 140, 120),
        ({"checkpoint": True, "timeout": 20.0}, None, 120, None),
        ({"checkpoint": True, "timeout": 20.0, "grace": 5.0, "rehearses": True}, None, 120, 115),
        ({"checkpoint": True, "timeout": 20.0, "grace": 5.0, "rehearses": True}, BLOCK, 120, 115),
        ({"checkpoint": True, "timeout": 2000.0, "grace": 5.0, "rehearses": True}, BLOCK, 1000, 995),
    ],
)
def test_the_earliest_limit_is_the_deadline_and_the_grace_comes_before_it(
    keys: dict[str, Any], block: BlockHere | None, deadline: float | None, interrupt: float | None
) -> None:
    limits = limits_of(work(**keys), 100.0, block)
    assert (limits.deadline, limits.interrupt) == (deadline, interrupt)


def test_without_a_block_nothing_is_stopped_by_its_walltime() -> None:
    assert limits_of(work(walltime=5.0), 100.0, None) == Limits()


@pytest.mark.parametrize(
    ("keys", "now", "fits"),
    [
        ({}, 998.9, True),
        ({}, 999.1, False),
        ({"walltime": 300.0}, 700.0, True),
        ({"walltime": 300.0}, 700.1, False),
        ({"checkpoint": True}, 938.0, True),
        ({"checkpoint": True}, 940.0, False),
    ],
)
def test_a_task_fits_that_can_end_or_save_before_the_block_does(
    keys: dict[str, Any], now: float, fits: bool
) -> None:
    assert BLOCK.has_room(work(**keys), now) is fits


def test_a_task_that_says_nothing_needs_what_others_like_it_took() -> None:
    assert BLOCK.has_room(work(), 955.0, 38.0)
    assert not BLOCK.has_room(work(), 980.0, 38.0)
    assert BLOCK.has_room(work(walltime=10.0), 985.0, 38.0)
    fresh = own_block({"DIEL_BLOCK": "1-0", "DIEL_BLOCK_END": "1000", "DIEL_BLOCK_WALLTIME": "400"})
    assert fresh is not None
    assert fresh.has_room(work(), 610.0, 5000.0), "no block would have more time"
    assert not fresh.has_room(work(), 640.0, 5000.0)


def test_a_block_without_an_end_is_none() -> None:
    assert own_block({"DIEL_BLOCK": "1-0"}) is None
    assert own_block({"DIEL_BLOCK": "1-0", "DIEL_BLOCK_END": "soon"}) is None
    assert own_block({"DIEL_BLOCK": "1-0", "DIEL_BLOCK_END": "500.5"}) == BlockHere("1-0", 500.5 - MARGIN)


def test_a_task_as_long_as_its_block_is_given_to_a_fresh_one_alone() -> None:
    block = own_block({"DIEL_BLOCK": "1-0", "DIEL_BLOCK_END": "1000", "DIEL_BLOCK_WALLTIME": "400"})
    assert block is not None
    assert block.has_room(work(walltime=400.0), 620.0)
    assert not block.has_room(work(walltime=400.0), 630.0)
    assert not block.has_room(work(walltime=10.0), 990.0)
    assert not block.has_room(work(), 996.0)


@pytest.mark.parametrize(
    ("wanted", "given", "before", "after"),
    [
        (None, "", {"CUDA": "0", "ROCR": "0", "ZE": "0"}, {"CUDA": "0", "ROCR": "0", "ZE": "0"}),
        ("CUDA", "", {"CUDA": "0", "ROCR": "0", "ZE": "0"}, {"CUDA": "0"}),
        ("ZE", "", {"CUDA": "1", "ROCR": "1", "ZE": "1"}, {"ZE": "1"}),
        ("CUDA", "2,3", {"CUDA": "1", "ROCR": "1", "ZE": "1"}, {"CUDA": "3"}),
        ("CUDA, ROCR", "4,6,7", {"CUDA": "0,2", "ROCR": "0,2"}, {"CUDA": "4,7", "ROCR": "4,7"}),
        ("CUDA", "2,3", {"CUDA": "2,3"}, {"CUDA": "2,3"}),
        ("CUDA", "GPU-a,GPU-b", {"CUDA": "1"}, {"CUDA": "GPU-b"}),
        ("CUDA", "2,3", {}, {}),
    ],
)
def test_a_task_gets_the_variables_its_site_wants_and_the_devices_its_block_has(
    wanted: str | None, given: str, before: dict[str, str], after: dict[str, str]
) -> None:
    names = {"CUDA": "CUDA_VISIBLE_DEVICES", "ROCR": "ROCR_VISIBLE_DEVICES", "ZE": "ZE_AFFINITY_MASK"}
    environ = {names[name]: value for name, value in before.items()}
    if wanted is not None:
        environ["DIEL_GPU_VARIABLES"] = ",".join(names[name.strip()] for name in wanted.split(","))
    if given:
        environ["DIEL_BLOCK_GPUS"] = given
    pin_gpus(environ)
    left = {name: value for name, value in environ.items() if not name.startswith("DIEL_")}
    assert left == {names[name]: value for name, value in after.items()}


def test_a_launchers_words_get_the_tasks_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("mpiexec", "--hosts", "{hosts}", "-n", "4")
    monkeypatch.setenv("PARSL_MPI_NODELIST", "n1,n2")
    assert with_hosts(words) == ("mpiexec", "--hosts", "n1,n2", "-n", "4")
    monkeypatch.delenv("PARSL_MPI_NODELIST")
    monkeypatch.setenv("DIEL_NODE_NAME", "n7")
    assert with_hosts(words)[2] == "n7"
    assert with_hosts(("srun",)) == ("srun",)
