"""What one task asks for: its values as a file would write them, and the pool that it fits."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from diel.site.demand import Demand
from diel.site.shape import Unplaceable
from diel.site.site import Pool, Site
from diel.store.artifacts import Artifact
from diel.workflow.load import load_text

SITE = Site(
    name="here", scheduler="local", pools={"one": Pool.model_validate({"cores": 8, "memory": "16GiB"})}
)


def demand(keys: str) -> Demand:
    text = "diel: 1\nname: w\nstages:\n  s:\n    command: [echo]\n    checkpoint: true\n    grace: 30s\n"
    text += textwrap.indent(textwrap.dedent(keys).strip(), "    ") + "\n"
    return Demand(
        load_text(text, Path("w.yaml")), SITE, "s", lambda site, pool, wanted: ("run", str(wanted.ranks))
    )


def misfit(keys: str, **scope: Any) -> str:
    with pytest.raises(Unplaceable) as error:
        demand(keys).of(scope)
    return str(error.value)


def test_all_that_follows_from_its_resources_is_the_task_s_own() -> None:
    given = demand(
        """
        resources: {ranks: "${{ n }}", cores_per_rank: 2, memory: "${{ n }}GiB", walltime: "${{ 1h / n }}"}
        timeout: "${{ 10m if n > 1 else null }}"
        retries: {limit: "${{ n }}", backoff: "${{ 1s * n }}"}
        """
    )
    ask = given.of({"n": 4})
    assert (ask.cores, ask.launcher, ask.shape.cores, ask.shape.walltime) == (8, ("run", "4"), 8, 900.0)
    assert (ask.spec.timeout, ask.spec.retries.limit, ask.spec.retries.backoff) == (600.0, 4, 4.0)
    assert ask.own["memory"] == 4 * 2**30
    assert given.of({"n": 1}).spec.timeout is None
    assert given.of({"n": 4}) is ask, "the same values are worked out once"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            'resources: {ranks: "${{ n }}"}',
            "w.yaml:8:24: with n=9: asks for 9 cores a node, and pool 'one' has 8",
        ),
        (
            'resources: {memory: "${{ size(f) * n }}"}',
            "with size(f)=2.0 GiB, n=9: asks for 18.0 GiB of memory",
        ),
        ('resources: {walltime: "${{ 1s * n }}"}', "with n=9: a grace of 30s uses up the walltime"),
        ('resources: {ranks: "${{ n > 3 }}"}', "expected a whole number or a name, found true"),
        ('resources: {ranks: "${{ [n] }}"}', "found a list"),
        ('timeout: "${{ -1s * n }}"', "expected a duration"),
        ('retries: "${{ 1000 * n }}"', "at most 1000"),
        ("environment: \"${{ 'gcc' }}\"", "no environment 'gcc'"),
        ('resources: {ranks: "${{ m }}"}', "unknown name 'm'"),
    ],
)
def test_what_is_wrong_is_told_with_the_point(keys: str, message: str) -> None:
    assert message in misfit(keys, n=9, f=Artifact("/f", "d", size=2**31))


def test_null_leaves_a_key_out() -> None:
    ask = demand('resources: {ranks: "${{ null }}", memory: "${{ null }}", pool: "${{ null }}"}').of({})
    assert (ask.spec.resources.mpi, ask.spec.resources.memory, ask.shape.pool) == (False, None, "one")
