"""A site: its launcher's words, and what its users must still give."""

from __future__ import annotations

from typing import Any

import pytest

from diel.site import Site, launcher_words, missing
from diel.spec import Resources


def asked(**resources: Any) -> Resources:
    return Resources.model_validate(resources)


def site(**more: Any) -> Site:
    spec = {"name": "s", "scheduler": "local", "pools": {"p": {}}, **more}
    return Site.model_validate(spec)


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({}, ()),
        ({"cores_per_rank": 4}, ()),
        ({"ranks": 3}, ("mpiexec", "-n", "3")),
        ({"ranks": 1}, ("mpiexec", "-n", "1")),
        ({"nodes": 2, "ranks_per_node": 4}, ("mpiexec", "-n", "8")),
    ],
)
def test_ranks_are_put_into_the_launchers_words(resources: dict[str, Any], words: tuple[str, ...]) -> None:
    assert launcher_words(site(), asked(**resources)) == words


def test_a_site_has_a_launcher_of_its_own() -> None:
    found = launcher_words(site(launcher=["srun", "--ntasks={ranks}"]), asked(ranks=2))
    assert found == ("srun", "--ntasks=2")


def test_where_the_task_runs_stays_open_until_it_runs() -> None:
    words = launcher_words(site(launcher=["mpiexec", "-n", "{ranks}", "-hosts", "{hosts}"]), asked(ranks=2))
    assert words == ("mpiexec", "-n", "2", "-hosts", "{hosts}")


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
