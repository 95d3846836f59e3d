"""Loads Parsl without what of it diel does not use: half of the time that loading it takes.

- The database library of its monitoring. Where SQLAlchemy is installed, and Optuna brings it along, each
  process that loads Parsl would spend a quarter of a second on it: the controller, the interchange, two on
  each node.
- The checks of its arguments' types. For each of them typeguard parses Parsl's source anew, for a third of
  a second; what diel hands to Parsl is checked by mypy.
- The HTTP client with which it would ask a server on the internet for this host's address.

A line of its log that cannot be written, as on a full disk, is dropped: by default Python prints a traceback.
"""

import importlib
import logging
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

logging.raiseExceptions = False

Checked = TypeVar("Checked", bound=Callable[..., object])


def _typechecked(function: Checked) -> Checked:
    """In the place of typeguard's decorator: leaves the function as it is."""
    return function


def _unchecked() -> ModuleType:
    module = ModuleType("typeguard")
    module.typechecked = _typechecked  # type: ignore[attr-defined]
    return module


_INSTEAD: dict[str, ModuleType | None] = {
    "sqlalchemy": None,
    "typeguard": _unchecked(),
    "requests": ModuleType("requests"),
}
"""What Parsl finds in the place of packages; None: it takes them for not installed."""

_placed = [name for name in _INSTEAD if name not in sys.modules]
for _name in _placed:
    sys.modules[_name] = _INSTEAD[_name]  # type: ignore[assignment]
try:
    importlib.import_module("parsl")
finally:
    for _name in _placed:
        del sys.modules[_name]
