"""What tasks of a stage have in common."""

from __future__ import annotations

import time

import pytest

from diel.tasks.points.domain import Domain, Origins, make_domain
from diel.tasks.points.shared import shared
from diel.workflow.models.forms.axis import Points

DEPTH = Points(("depth",), ([1.0, 2.5, 3.0],))
SEED = Points(("seed",), (range(4),))
STATE = Points(("density", "pressure"), ([0.3, 0.3, 0.5], [1, 2, 3]))


def plane(*chosen: tuple[int, int]) -> tuple[Domain, list[int]]:
    """Three depths with four seeds, and the tasks at some places of them."""
    domain = make_domain(("depth", "seed"), {"depth": 3, "seed": 4}, {})
    return domain, [depth * 4 + seed for depth, seed in chosen]


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ([(1, 0), (1, 1), (1, 2), (1, 3)], "all 4 with depth=2.5"),
        ([(0, 1), (1, 1), (2, 1)], "all 3 with seed=1"),
        ([(1, 0), (1, 1), (1, 2), (1, 3), (0, 0)], "all 4 with depth=2.5; 1 other"),
        ([(1, 0), (1, 1), (1, 2), (1, 3), (0, 1), (2, 1)], "all 4 with depth=2.5; all 3 with seed=1"),
        ([(1, 0), (1, 1), (1, 2)], "each with depth=2.5 (3 of the 4 such tasks)"),  # one did not fail
        ([(0, 0), (1, 1)], ""),
        ([(1, 1)], ""),
        ([(depth, seed) for depth in range(3) for seed in range(4)], "all 12 tasks"),
    ],
)
def test_all_is_said_only_where_it_is_all(chosen: list[tuple[int, int]], told: str) -> None:
    domain, tasks = plane(*chosen)
    assert shared(domain, {"depth": DEPTH, "seed": SEED}, tasks) == told


def test_several_parameters_are_combined() -> None:
    domain = make_domain(("depth", "seed", "run"), {"depth": 3, "seed": 4, "run": 5}, {})
    points = {"depth": DEPTH, "seed": SEED, "run": Points(("run",), (range(5),))}
    tasks = [*domain.matching({"depth": 1, "seed": 1})]
    assert shared(domain, points, tasks) == "all 5 with depth=2.5, seed=1"


def test_a_value_that_several_points_have_counts_for_all_of_them() -> None:
    domain = make_domain(("state",), {"state": 3}, {})
    assert shared(domain, {"state": STATE}, [0, 1]) == "all 2 with density=0.3"
    assert shared(domain, {"state": STATE}, [0, 2]) == ""


def test_points_that_were_joined_count_where_they_are() -> None:
    origins = {"found": Origins(("depth",), [(0,), (0,), (1,)])}
    domain = make_domain(("depth", "found"), {"depth": 3, "found": 3}, origins)
    points = {"depth": DEPTH, "found": Points(("found",), ([7, 8, 9],))}
    assert shared(domain, points, [0, 1]) == "all 2 with depth=1.0"


def test_many_tasks_of_many_more_cost_little() -> None:
    domain = make_domain(("x", "y"), {"x": 1000, "y": 1000}, {})
    points = {"x": Points(("x",), (range(1000),)), "y": Points(("y",), (range(1000),))}
    began = time.process_time()
    told = shared(domain, points, [*domain.matching({"x": 3}), *domain.matching({"x": 9})])
    assert told == "all 1,000 with x=3; all 1,000 with x=9"
    assert time.process_time() - began < 2
