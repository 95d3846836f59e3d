"""What a task asks for after a failure."""

from __future__ import annotations

from diel.controller.escalation import escalated, exhausted
from diel.spec import Resources
from diel.spec.policy import Rule

GIB = 2**30
TWICE = Rule(2, 0.0, shared=False, memory=2.0, walltime=1.5)


def test_memory_and_walltime_grow_by_their_factors() -> None:
    before = Resources.model_validate({"memory": f"{GIB}B", "walltime": "60s"})
    after = escalated("s", before, TWICE, lambda *_: True)
    assert (after.memory, after.walltime) == (2 * GIB, 90.0)
    assert exhausted(before, after, TWICE) == ""


def test_growth_ends_at_what_the_largest_pool_has() -> None:
    def fits(_: str, wanted: Resources) -> bool:
        return (wanted.memory or 0) <= 3 * GIB and (wanted.walltime or 0) <= 100

    first = escalated(
        "s", Resources.model_validate({"memory": f"{2 * GIB}B", "walltime": "90s"}), TWICE, fits
    )
    assert 3 * GIB - 2**20 <= (first.memory or 0) <= 3 * GIB
    assert 99 <= (first.walltime or 0) <= 100
    second = escalated("s", first, TWICE, fits)
    assert second == first
    assert exhausted(first, second, TWICE).startswith(
        "no pool gives a task more than 3.0 GiB of memory or 1m"
    )


def test_nothing_grows_that_is_not_given() -> None:
    before = Resources()
    after = escalated("s", before, TWICE, lambda *_: True)
    assert after == before
    assert exhausted(before, after, TWICE) == ""
