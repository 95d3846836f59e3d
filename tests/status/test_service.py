"""How services stand, by the files of their replicas."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.paths import RunPaths
from diel.services.endpoint import Endpoint, endpoint_file, write_endpoint
from diel.status.run import services_of
from diel.status.sections import service_lines


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A run with two services; of one all replicas are ready."""
    found = RunPaths(tmp_path / "w-1")
    for index in (10, 9):
        write_endpoint(
            endpoint_file(found, "model", index), Endpoint("ready", f"http://here:{index}", 1, index - 9)
        )
    write_endpoint(
        endpoint_file(found, "db", 0), Endpoint("restarting", "http://here:1", 1, 2, "exit code 3")
    )
    write_endpoint(endpoint_file(found, "db", 1), Endpoint("stopped", "http://here:2", 1))
    return found


def test_each_service_has_a_line_with_where_it_is_and_what_troubles_it(paths: RunPaths) -> None:
    assert service_lines(services_of(paths, driven=True)) == [
        "service db: 1 of 2 replicas restarting, 1 of 2 replicas stopped, restarted 2 times",
        "  db/0: exit code 3",
        "service model: 2 replicas ready, restarted once: http://here:9, http://here:10",
    ]


def test_without_a_controller_no_service_stays_up(paths: RunPaths) -> None:
    db, model = services_of(paths, driven=False)
    assert [replica.state for replica in db.replicas] == ["gone", "stopped"]
    assert [(replica.state, replica.url) for replica in model.replicas] == [("gone", "")] * 2
    assert model.document()["ready"] == 0


def test_a_script_reads_each_replica_in_the_order_of_tasks(paths: RunPaths) -> None:
    endpoint_file(paths, "model", 11).write_text("{")  # half written, or a newer diel's
    (paths.services / "model" / "9.1.inputs.json").write_text("{}")
    document = services_of(paths, driven=True)[1].document()
    assert (document["ready"], document["restarts"]) == (2, 1)
    assert [replica["task"] for replica in document["replicas"]] == ["model/9", "model/10"]
