"""Sums over MPI ranks, written out, and the law of what they cost."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import diel
from modules.training.allreduce import (
    SUMS,
    Cost,
    Measured,
    Piece,
    Point,
    allreduce,
    efficiency,
    fit,
    fit_cost,
    predict,
    terms,
)

ALPHA, BETA, GAMMA = 2e-5, 4e9, 1e10


def line(fixed: float, per_byte: float, up_to: float | None = None) -> Piece:
    return {"up_to": up_to, "fixed": fixed, "per_byte": per_byte}


COST: Cost = {
    "sums": {name: [line(ALPHA, 1 / BETA)] for name in SUMS},
    "adding": [line(0.0, 1 / GAMMA)],
    "cores": 2,
}


def test_sums_are_right_on_any_number_of_ranks_and_measured_beside_what_is_predicted(
    on_ranks: Callable[[int, str], str], tmp_path: Path
) -> None:
    code = f"""
import json
from pathlib import Path
import numpy as np
from mpi4py import MPI
import diel
from modules.training.allreduce import SUMS, allreduce
world = MPI.COMM_WORLD
for call in SUMS.values():
    for size in (1, 2, 7, 1000):  # fewer numbers than ranks, too
        mine = np.arange(float(size)) * (world.Get_rank() + 1)
        call(world, mine, np.empty(size))
        assert np.allclose(mine, 6 * np.arange(float(size)))
found = allreduce(world, diel.Context(task_dir=Path({str(tmp_path)!r})), least=64, doublings=2, seconds=1e-3)
every = world.gather({{**found, "table": str(found["table"])}})
every and print(json.dumps(every))
"""
    *lines, last = on_ranks(3, code).splitlines()
    every = json.loads(last)
    assert every[0] == every[1] == every[2]
    with open(every[0]["table"], encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {(row["algorithm"], row["ranks"], row["bytes"]) for row in rows} == {
        (name, ranks, size) for name in SUMS for ranks in "23" for size in ("64", "96", "128", "192", "256")
    }
    fitted = {(row["ranks"], row["bytes"]) for row in rows if row["fitted"] == "True"}
    assert fitted == {("2", "64"), ("2", "128"), ("2", "256")}
    errors = [
        abs(float(row["predicted_s"]) / float(row["measured_s"]) - 1)
        for row in rows
        if row["fitted"] == "False"
    ]
    assert every[0]["largest_error"] == pytest.approx(max(errors))
    assert every[0]["close"] == sum(error <= 0.2 for error in errors) / len(errors)
    assert sum("predictions within 20%" in line for line in lines) == 3 * 2


def test_the_library_is_predicted_by_the_law_of_halving_and_doubling() -> None:
    size, ranks = 10**6, [2, 4, 8, 1024]
    expected = [
        2 * ALPHA * math.log2(p) + 2 * size / BETA * (p - 1) / p + size / GAMMA * (p - 1) / p for p in ranks
    ]
    cost: Any = COST
    assert predict(cost, size, ranks)["seconds"] == pytest.approx(expected)
    ring = predict(cost, size, ranks, algorithm="ring")["seconds"]
    assert ring == pytest.approx(
        [value + 2 * ALPHA * (p - 1 - math.log2(p)) for value, p in zip(expected, ranks, strict=True)]
    )
    assert predict(cost, size, [1])["seconds"] == [0.0]


def test_ranks_beyond_a_power_of_two_cost_two_messages_of_all_more() -> None:
    size = 10**6
    cost: Any = COST
    for algorithm in ("library", "doubling"):
        four, six = predict(cost, size, [4, 6], algorithm=algorithm)["seconds"]
        assert six == pytest.approx(four + 2 * ALPHA + 2 * size / BETA + size / GAMMA)
    # while they wait the others have the cores
    assert predict(cost, size, [3], 3)["seconds"] == predict(cost, size, [3])["seconds"]


def test_ranks_that_share_cores_take_turns_with_each_byte() -> None:
    cost: Any = COST
    (apart,), (shared,) = (predict(cost, 10**9, [4], n)["seconds"] for n in (1, 4))
    assert shared == pytest.approx(2 * apart, rel=1e-3)


def test_a_fit_finds_the_law_that_the_times_follow_and_predicts_other_sizes_and_ranks() -> None:
    sizes = [4096 << doubling for doubling in range(11)]

    def time(name: Any, size: float, ranks: int) -> float:
        work, took = terms(name, size, ranks), 0.0
        for count, part in work.messages:  # another protocol takes over for long ones
            latency, speed = (5e-6, 8e9) if part <= 100_000 else (1e-4, 2e9)
            took += count * (latency + part / speed)
        return took + sum(count * part for count, part in work.added) / GAMMA

    measured: dict[Measured, float] = {
        (name, 2, size): time(name, size, 2) for name in SUMS for size in sizes
    }
    measured |= {("adding", 2, size): size / GAMMA for size in sizes}
    cost: Any = fit_cost(measured, sizes, 2, cores=8)
    for name in SUMS:
        assert len(cost["sums"][name]) == 2
        for ranks in (2, 4, 8):
            for size in (6144, 49152, 1_572_864):
                (seconds,) = predict(cost, size, [ranks], algorithm=name)["seconds"]
                assert seconds == pytest.approx(time(name, size, ranks), rel=1e-6)
    many = [2 << power for power in range(10)]
    growing = predict(cost, 500_000, many)["seconds"]
    assert growing == sorted(growing)  # though the last messages of many ranks are short, and quick


def test_whole_steps_are_predicted_from_gradients_and_what_a_sum_costs(
    on_ranks: Callable[[int, str], str], tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="diel[torch] is not installed")
    code = f"""
import json
from pathlib import Path
import numpy as np
from mpi4py import MPI
import diel
from modules.training.allreduce import step
labels = np.arange(64) % 4
found = step(np.eye(4)[labels], labels, {COST!r}, MPI.COMM_WORLD, diel.Context(task_dir=Path({str(tmp_path)!r})),
             hidden=[16], fitted=[8, 64], predicted=[16, 32], seconds=0.05)
if MPI.COMM_WORLD.Get_rank() == 0:  # which writes the table
    print(json.dumps({{**found, "table": found["table"].read_text()}}))
"""
    *lines, last = on_ranks(2, code).splitlines()
    result = json.loads(last)
    assert result["size"] == 4 * (4 * 16 + 16 + 16 * 4 + 4)
    rows = list(csv.DictReader(result["table"].splitlines()))
    assert [(row["ranks"], row["rows"]) for row in rows] == [("2", "16"), ("2", "32")]
    cost: Any = COST
    (summed,) = predict(cost, result["size"], [2])["seconds"]
    for row in rows:
        said_s = result["fixed_s"] + int(row["rows"]) * result["row_s"] + summed
        assert float(row["predicted_s"]) == pytest.approx(said_s)
    assert lines[0].startswith("a gradient of 0.00 MiB takes ")


def test_no_latency_or_speed_is_negative() -> None:
    falling = [Point(size, 2, size, 0.0, 1e-3 / size) for size in (1000.0, 2000.0, 4000.0)]
    (piece,) = fit(falling)
    assert piece["fixed"] >= 0
    assert piece["per_byte"] >= 0


def test_efficiency_is_two_factors_with_bounds_and_says_what_was_not_tried(
    context: diel.Context, capsys: pytest.CaptureFixture[str]
) -> None:
    cost: Any = COST
    result = efficiency(context, cost, 1e-3, 1e-5, 10**6, [100, 200, 400], [80, 50, 0], ranks=[2, 4, 8])
    two, four, eight = result["rows"]
    took = predict(cost, 10**6, [2])["seconds"][0]
    assert two["computational"] == pytest.approx(2e-3 / (2e-3 + took))
    assert two["at_least"] < two["computational"] < two["at_most"] <= 1
    assert two["statistical"] == 80 * 100 / (50 * 200)
    assert two["product"] == two["computational"] * two["statistical"]
    assert four["statistical"] is four["product"] is eight["statistical"] is None
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(")")[2].strip() for line in lines[-2:]] == ["not reached", "not tried"]
    assert result["table"].read_text().startswith("ranks,sum_s,computational,at_least,at_most,")


def test_efficiency_is_that_of_the_smallest_batch_or_unknown_where_that_does_not_reach_the_loss(
    context: diel.Context, capsys: pytest.CaptureFixture[str]
) -> None:
    cost: Any = COST

    def entries(batch: list[int], steps: list[float]) -> list[dict[str, Any]]:
        return efficiency(context, cost, 1e-3, 1e-5, 10**6, batch, steps, ranks=[1, 2, 4])["rows"]

    assert entries([400, 100, 200], [30, 80, 50]) == entries([100, 200, 400], [80, 50, 30])
    capsys.readouterr()
    assert [row["statistical"] for row in entries([100, 200, 400], [0, 50, 30])] == [None, None, None]
    assert capsys.readouterr().out.count("not reached") == 3


def test_a_single_rank_or_ranks_that_are_not_there_are_refused(context: diel.Context) -> None:
    alone: Any = SimpleNamespace(Get_size=lambda: 1)
    with pytest.raises(ValueError, match="ranks: 2"):
        allreduce(alone, context)
    two: Any = SimpleNamespace(Get_size=lambda: 2)
    with pytest.raises(ValueError, match="from 2 to 2 ranks, found 2, 4"):
        allreduce(two, context, ranks=[4])
