"""A site: what its users must still give."""

from __future__ import annotations

from typing import Any

from diel.site import Site, missing


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
