"""What a task asks for: its processes, cores and GPUs, and what later attempts change."""

from __future__ import annotations

import pytest

from diel.workflow.models import Resources
from tests.spec.flawed import flaws_of


@pytest.mark.parametrize(
    ("given", "processes", "cores", "gpus", "mpi"),
    [
        ({}, 1, 1, 0, False),
        ({"cores_per_rank": 4, "gpus_per_rank": 1}, 1, 4, 1, False),
        ({"ranks": 6, "cores_per_rank": 2, "gpus_per_rank": 1}, 6, 12, 6, True),
        ({"nodes": 2, "ranks_per_node": 3}, 6, 6, 0, True),
        ({"nodes": 2, "ranks_per_node": 3, "ranks": 6}, 6, 6, 0, True),
        ({"nodes": 2}, 1, 1, 0, False),
    ],
)
def test_a_task_has_the_processes_that_its_resources_ask_for(
    given: dict[str, int], processes: int, cores: int, gpus: int, mpi: bool
) -> None:
    asked = Resources.model_validate(given)
    assert (asked.processes, asked.cores, asked.gpus, asked.mpi) == (processes, cores, gpus, mpi)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"nodes": 2, "ranks_per_node": 3, "ranks": 5}, "ranks"),
        ({"ranks_per_node": 3, "ranks": 2}, "ranks_per_node"),
        ({"nodes": 3, "ranks": 2}, "nodes"),
    ],
)
def test_ranks_that_do_not_come_out_even_are_refused_at_the_key_to_correct(
    given: dict[str, int], key: str
) -> None:
    (flaw,) = flaws_of(Resources, given)
    assert flaw.key == (key,)


def test_what_an_attempt_asked_for_is_known_from_its_changes() -> None:
    first = Resources.model_validate({"memory": "1GiB", "walltime": "10m", "ranks": 2})
    later = first.changed({"memory": 2**31})
    assert (later.memory, later.walltime, later.ranks) == (2**31, 600.0, 2)
    assert later.changes(first) == {"memory": 2**31}
    assert later.changed({"walltime": 60.0}).changes(later) == {"walltime": 60.0}
    assert first.changes(first) == {}
    assert first.changed({"ranks": 9}) == first
