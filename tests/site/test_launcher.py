"""Launchers of a site: who chooses, and their words."""

from __future__ import annotations

from typing import Any

import pytest

from diel.site import Site, launcher_words
from diel.spec import Resources


def words(resources: dict[str, Any], **more: Any) -> tuple[str, ...]:
    """What starts the ranks of a task that asks for this, in pool `p` of a site with this."""
    site = Site.model_validate({"name": "s", "scheduler": "local", "pools": {"p": {}}, **more})
    return launcher_words(site, "p", Resources.model_validate(resources))


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"ranks": 3}, ("mpiexec", "-n", "3")),
        ({"ranks": 1}, ("mpiexec", "-n", "1")),
        ({"nodes": 2, "ranks_per_node": 4}, ("mpiexec", "-n", "8")),
    ],
)
def test_ranks_are_put_into_the_launchers_words(resources: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert words(resources) == expected


def test_where_the_task_runs_stays_open_until_it_runs() -> None:
    launcher = ["mpiexec", "-n", "{ranks}", "-hosts", "{hosts}"]
    assert words({"ranks": 2}, launcher=launcher) == ("mpiexec", "-n", "2", "-hosts", "{hosts}")


LAUNCHERS = {"a": ["a", "{ranks}"], "b": ["b", "{ranks}"], "c": ["c", "{ranks}"]}


@pytest.mark.parametrize(
    ("resources", "pool", "site", "expected"),
    [
        ({}, {}, {"launcher": "a"}, "a"),
        ({}, {"launcher": "b"}, {"launcher": "a"}, "b"),
        ({}, {"launcher": ["own", "{ranks}"]}, {"launcher": "a"}, "own"),
        ({"launcher": "c"}, {"launcher": "b"}, {"launcher": ["own", "{ranks}"]}, "c"),
        ({}, {}, {"launcher": ["own", "{ranks}"]}, "own"),
        ({}, {}, {}, "mpiexec"),
    ],
)
def test_the_stage_chooses_before_its_pool_and_that_before_the_site(
    resources: dict[str, Any], pool: dict[str, Any], site: dict[str, Any], expected: str
) -> None:
    found = words({"ranks": 2, **resources}, pools={"p": pool}, launchers=LAUNCHERS, **site)
    assert (found[0], found[-1]) == (expected, "2")
