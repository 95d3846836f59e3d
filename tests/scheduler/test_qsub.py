"""What PBS and Torque share: queues, and names of outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.scheduler import Job, Queue
from diel.scheduler.pbs import Pbs, bytes_of, hosts, parse_queues, parse_server
from diel.scheduler.torque import Torque


def test_queues_are_read_from_qstat_in_full() -> None:
    text = (
        "Queue: workq\n    queue_type = Execution\n    enabled = True\n\n"
        "Queue: a-queue-with-a-long-name\n    resources_max.walltime = 24:00:00\n"
    )
    assert parse_queues(text) == [Queue("workq"), Queue("a-queue-with-a-long-name", 86400.0)]


def test_queues_are_read_from_the_table_that_some_qstats_print() -> None:
    text = (
        "Queue              Max   Tot Ena Str   Que   Run\n"
        "---------------- ----- ----- --- --- ----- -----\n"
        "main                 0     0 yes yes     0     0\n"
        "spot                 0     0 yes yes     0     0\n"
    )
    assert [queue.name for queue in parse_queues(text)] == ["main", "spot"]
    assert parse_queues("nothing") == []


def test_the_default_queue_of_pbs_is_the_servers() -> None:
    queues = [Queue("workq", 60.0), Queue("long")]
    text = "Server: head\n    server_state = Active\n    default_queue = workq\n"
    assert parse_server(text, queues) == [Queue("workq", 60.0, default=True), Queue("long")]
    assert parse_server("head 0 0", queues) == queues


@pytest.mark.parametrize("kind", [Pbs, Torque])
def test_an_output_in_the_jobs_folder_goes_by_its_name_since_a_colon_would_mean_a_host(
    kind: type[Pbs | Torque],
) -> None:
    folder = Path("/scratch/a: b")
    job = Job("d", "true", folder, folder / "1.out", folder / "x y", nodes=1, cores=1, walltime=60)
    script = kind().script(job)
    assert "#PBS -o 1.out\n" in script
    assert '#PBS -e "/scratch/a: b/x y"\n' in script


def test_sizes_and_hosts_are_read() -> None:
    assert [bytes_of(text) for text in ("2kb", "1gb", "17", "soon")] == [2048, 2**30, 17, 0]
    assert hosts("n1/0*4+n2/0*4+n1/1") == "n1,n2"
