"""The broker's process: who may take part, and when it ends."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import zmq

from diel.base.paths import RunPaths
from diel.streams.client import Connection
from diel.streams.protocol import contact_file, read_contact
from tests.streams.served import Served


def test_only_its_owner_can_read_the_keys(shared: Served, connection: Connection) -> None:
    connection.facts()
    mode = contact_file(RunPaths(shared.run).streams).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def peer(shared: Served, keys: str) -> bytes | None:
    """What a peer hears within half a second."""
    contact = read_contact(RunPaths(shared.run).streams)
    assert contact is not None
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        if keys != "none":
            dealer.curve_serverkey = contact.key.encode()
            own = zmq.curve_keypair()
            known = (contact.client_key.encode(), contact.client_secret.encode())
            dealer.curve_publickey, dealer.curve_secretkey = known if keys == "ours" else own
        dealer.connect(f"tcp://{contact.addresses[0]}:{contact.port}")
        dealer.send(json.dumps({"id": 1, "op": "facts"}).encode())
        return dealer.recv() if dealer.poll(10_000 if keys == "ours" else 500) else None


def test_a_peer_without_the_keys_is_not_answered(shared: Served, connection: Connection) -> None:
    connection.facts()
    assert peer(shared, "ours") is not None
    assert peer(shared, "none") is None
    assert peer(shared, "other") is None
    connection.facts()


def test_a_broker_that_is_asked_to_stop_ends_and_leaves_no_address(served: Served) -> None:
    connection = Connection(served.run)
    connection.stop()
    assert served.process.wait(60) == 0
    assert read_contact(RunPaths(served.run).streams) is None
    connection.disconnect()


def test_a_second_broker_takes_the_place_of_the_first(served: Served) -> None:
    connection = Connection(served.run)
    connection.open("x", groups={"use": ["use/0"]})
    first = served.process
    served.start()
    assert first.wait(60) == 0
    connection.producer("x", "make/0", 1).put(1)
    assert connection.consumer("x", "use", "use/0", 1).get(timeout=60) == 1
    connection.disconnect()


def test_a_broker_ends_when_no_controller_lives(tmp_path: Path) -> None:
    served = Served(tmp_path, "--silence", "0.2")
    assert served.process.wait(30) == 0
