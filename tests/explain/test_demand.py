"""What attempts asked for by expressions, in words."""

from __future__ import annotations

from diel.explain.demand import words


def test_what_was_asked_for_is_told_with_its_units() -> None:
    asked = {"ranks": 4, "memory": 2**31, "timeout": 600.0, "pool": None, "limit": 2}
    assert words(asked) == "ranks 4, memory 2.0 GiB, timeout 10m00s, retries 2"
