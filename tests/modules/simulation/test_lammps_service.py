"""LAMMPS that stays loaded answers as LAMMPS that starts anew, and as its potential is known."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import uvicorn

import diel
from diel.streams.services.client import ServiceClient, ServiceError
from modules.simulation.lammps_service import Engine, alone, application, crystal

CELLS = 2


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(CELLS, tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="module")
def url(engine: Engine) -> Iterator[str]:
    """The service at a port of its own."""
    config = uvicorn.Config(
        application(engine, "secret"), host="127.0.0.1", port=0, log_level="error", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.005)
        assert thread.is_alive()
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_a_perfect_crystal_has_the_energy_that_its_potential_was_made_for(engine: Engine) -> None:
    energy = engine.energy(crystal(CELLS, 0.0, 0, 0))
    assert energy / (4 * CELLS**3) == pytest.approx(-3.54, abs=0.0005)  # Foiles, Baskes and Daw 1986


def test_what_was_asked_before_does_not_matter(engine: Engine) -> None:
    drawn = [crystal(CELLS, 0.1, 0, number) for number in range(4)]
    assert [engine.energy(positions) for positions in drawn] == [
        engine.energy(positions) for positions in drawn[::-1]
    ][::-1]


def test_a_service_and_a_process_agree(engine: Engine, url: str, context: diel.Context) -> None:
    with ServiceClient("serve", [url], "secret") as client:
        drawn = [crystal(CELLS, 0.1, 7, number) for number in range(2)]
        energies = [
            client.post("/energy", {"positions": positions.tolist()})["energy"] for positions in drawn
        ]
    result = alone(np.array(energies), context, CELLS, crystals=2, seed=7)
    assert result["largest_difference"] < 1e-12
    assert result["mean"] == pytest.approx(np.mean(energies) / (4 * CELLS**3), rel=1e-12)


def test_the_energies_of_too_few_crystals_are_refused(context: diel.Context) -> None:
    with pytest.raises(ValueError, match="at least 3 crystals; found 2"):
        alone(np.zeros(2), context, CELLS, crystals=3)


def test_a_request_that_is_none_is_refused_in_words(url: str) -> None:
    with ServiceClient("serve", [url], "secret") as client:
        wrong: list[Any] = [[], {"positions": "here"}, {"positions": [[0.0, 0.0]]}]
        for document in wrong:
            with pytest.raises(ServiceError, match="400 expected"):
                client.post("/energy", document)
    with ServiceClient("serve", [url], "wrong") as client, pytest.raises(ServiceError, match="401 expected"):
        client.post("/energy", {"positions": []})


def test_the_process_says_what_lammps_says(context: diel.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modules.simulation.lammps_service.SCRIPT", "run 0\n")
    with pytest.raises(
        RuntimeError, match="LAMMPS stopped: ERROR: Run command before simulation box is defined"
    ):
        alone(np.ones(1), context, CELLS, crystals=1)
