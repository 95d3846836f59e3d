"""Brokers for the tests of streams: one that all tests share, and ones to kill."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from diel.streams.client import Connection
from tests.streams.desk import Desk
from tests.streams.served import Served

_names = itertools.count()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("runs") / "flow-1")
    yield served
    served.end()


@pytest.fixture(scope="session")
def connection(shared: Served) -> Iterator[Connection]:
    made = Connection(shared.run)
    yield made
    made.disconnect()


@pytest.fixture
def channel() -> str:
    """A channel that no other test uses."""
    return f"make.items-{next(_names)}"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A broker for one test alone."""
    made = Served(tmp_path / "flow-1")
    yield made
    made.end()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
