"""What the tests of executors share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.descendants import Living, gathered


@pytest.fixture
def living() -> Iterator[Living]:
    """Finds the processes that live of those which the test started, however they hide."""
    with gathered() as found:
        yield found
