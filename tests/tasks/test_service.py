"""An edge to a service: what its consumers wait for, whom they ask, and when nobody asks any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.states import TaskState
from diel.tasks.link import Verdict
from diel.tasks.service import ServiceLink
from tests.controller.bench import Bench

FLOW = """
axes: {m: {range: 2}, i: {range: 3}}
stages:
  train: {over: [m], command: [train], outputs: {model: {value: int}}}
  serve: {over: [m], command: [serve], inputs: {model: train.model}, service: {replicas: 2, shared_cores: true}}
  ask: {over: [m, i], command: [ask], services: [serve]}
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, FLOW)


def link_of(bench: Bench) -> ServiceLink:
    (link,) = (link for link in bench.stages.into["ask"] if isinstance(link, ServiceLink))
    return link


def verdicts(bench: Bench) -> list[Verdict]:
    link = link_of(bench)
    return [link.verdict(link.group_of_downstream(index)) for index in (0, 3)]


def test_consumers_wait_for_what_their_own_service_reads(bench: Bench) -> None:
    assert verdicts(bench) == [Verdict.WAITING, Verdict.WAITING]
    bench.done("train", 1, model=5)
    assert verdicts(bench) == [Verdict.WAITING, Verdict.READY]
    bench.fail("train", 0)
    assert verdicts(bench) == [Verdict.FAILED, Verdict.READY]


def test_each_point_has_replicas_of_its_own_side_by_side(bench: Bench) -> None:
    link = link_of(bench)
    assert bench.stages.runs["serve"].size == 4
    found = [list(link.replicas(link.group_of_downstream(index))) for index in range(6)]
    assert found == [[0, 1]] * 3 + [[2, 3]] * 3


def test_one_replica_that_is_lost_takes_nobody_with_it_and_the_last_one_does(bench: Bench) -> None:
    bench.done("train", 1, model=5)
    bench.stages.runs["serve"].history.set(3, TaskState.RUNNING)
    bench.fail("serve", 2)
    assert verdicts(bench)[1] is Verdict.READY
    bench.fail("serve", 3)
    assert verdicts(bench)[1] is Verdict.FAILED
    assert list(link_of(bench).woken_by(3)) == [3, 4, 5]


def test_a_result_depends_on_what_its_service_has_read(bench: Bench, tmp_path: Path) -> None:
    other = Bench(tmp_path, FLOW)
    for one, model in ((bench, 1), (other, 2)):
        one.done("train", 0, model=7)
        one.done("train", 1, model=model)
    mine, others = bench.keys("ask"), other.keys("ask")
    assert mine[:3] == others[:3]
    assert not set(mine[3:]) & set(others[3:])


def test_nobody_asks_any_more_once_all_consumers_of_a_point_have_ended(bench: Bench) -> None:
    link = link_of(bench)
    done = [
        (link.is_done(link.note_end(index)), link.is_done(link.group_of_downstream(3))) for index in range(3)
    ]
    assert done == [(False, False), (False, False), (True, False)]
