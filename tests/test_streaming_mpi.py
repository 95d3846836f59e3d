"""Streams of tasks that are several MPI ranks: each rank puts and gets for itself."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.throwaway import Project, Run

LAUNCHER = 'launcher: [mpiexec, -n, "{ranks}"]'
FLOW = """
    stages:
      make: {module: "ends:make", resources: {ranks: 2}, outputs: {samples: {stream: {buffer: 5}}}, timeout: 40s}
      share: {module: "ends:share", resources: {ranks: 2}, inputs: {samples: make.samples}}
      peek: {module: "ends:peek", resources: {ranks: 1}, inputs: {samples: make.samples}}
"""
MODULES = """
    from mpi4py import MPI

    @diel.module(kind="simulation")
    def make(context: diel.Context, communicator: MPI.Comm) -> dict:
        for number in range(30):
            context.stream("samples").put([context.rank, number])
        return {"ranks": communicator.Get_size()}

    @diel.module(kind="training")
    def share(context: diel.Context, communicator: MPI.Comm) -> dict:
        mine = list(context.stream("samples"))
        return {"got": communicator.allgather(mine)}

    @diel.module(kind="analysis")
    def peek(context: diel.Context, communicator: MPI.Comm) -> dict:
        return {"got": [context.stream("samples").get(timeout=40) for _ in range(3)]}
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Run:
    project = Project(tmp_path_factory.mktemp("mpi")).workflow(FLOW).module("ends", MODULES)
    return project.machine("five", 5, LAUNCHER).run("--site", "five")


def test_every_rank_of_a_producer_puts_and_the_ranks_of_a_reader_share(ran: Run) -> None:
    assert ran.value("make", "ranks") == 2
    got = ran.value("share", "got")
    assert len(got) == 2
    counted = Counter(tuple(item) for mine in got for item in mine)
    assert counted == {(rank, number): 1 for rank in range(2) for number in range(30)}
    for mine in got:
        for rank in range(2):  # each producer's items come in the order in which it put them
            numbers = [number for maker, number in mine if maker == rank]
            assert numbers == sorted(numbers)


def test_a_task_of_one_rank_that_stops_reading_holds_nobody_up(ran: Run) -> None:
    assert len(ran.value("peek", "got")) == 3  # and what was put is many buffers long
    assert ran.counts("make") == {"done": 1}
    assert ran.attempts("make") == [1]


def test_ranks_of_a_command_share_a_stream_and_have_tuples_of_their_own(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(
        """
        stages:
          make:
            command: 'seq 40 | diel stream put numbers'
            outputs: {numbers: {stream: true}}
          use:
            command:
              - sh
              - -c
              - 'diel stream get numbers > got.$PMI_RANK; diel stream space put "[1]" $PMI_RANK'
            inputs: {numbers: {from: make.numbers, share: true}}
            resources: {ranks: 2}
            outputs: {got: {glob: "got.*"}}
          both:
            command: 'diel stream space take "[1]" > one; diel stream space take "[1]" --timeout 30s > two'
            beside: [use]
            outputs: {one: one, two: two}
        """
    )
    made = project.machine("wide", 4, LAUNCHER).run("--site", "wide")
    got = [path.read_text().split() for path in made.task_dir("use").glob("got.*")]
    assert len(got) == 2
    assert sorted(int(number) for one in got for number in one) == list(range(1, 41))
    tuples = [json.loads(made.artifact("both", name).read_text())["value"] for name in ("one", "two")]
    assert sorted(tuples) == [0, 1]
