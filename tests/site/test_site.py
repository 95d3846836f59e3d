"""A site: what its users must still give."""

from __future__ import annotations

from typing import Any

import pytest

from diel.site.shape import launcher_words
from diel.site.site import Site, missing
from diel.workflow.models import Resources


def site(**more: Any) -> Site:
    spec = {"name": "s", "scheduler": "local", "pools": {"p": {}}, **more}
    return Site.model_validate(spec)


def needing(pools: dict[str, Any] | None = None, **more: Any) -> Site:
    pools = pools or {"cpu": {"cores": 4}, "gpu": {"cores": 4}}
    return Site.model_validate(
        {"name": "s", "scheduler": "slurm", "account_required": True, "pools": pools, **more}
    )


def test_an_account_that_is_wanted_and_not_given_is_told_with_both_ways_to_give_it() -> None:
    told = missing(needing())
    assert len(told) == 1
    for word in ("site 's'", "DIEL_ACCOUNT=NAME", "schedulers/mine.yaml", "`extends: s`", "`account: NAME`"):
        assert word in told[0]


def test_nothing_is_missing_where_the_site_or_each_pool_has_an_account() -> None:
    assert missing(needing(account="a")) == []
    assert missing(needing({"cpu": {"cores": 4, "account": "a"}})) == []
    assert missing(site()) == []


def test_only_the_pools_without_an_account_are_told() -> None:
    told = missing(needing({"cpu": {"cores": 4, "account": "a"}, "gpu": {"cores": 4}}))
    assert "pools gpu" in told[0]


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
