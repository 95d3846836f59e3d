"""Loads Parsl without the parts that diel does not use, in half of the time.

- The database library of its monitoring. Where SQLAlchemy is installed, and Optuna brings it along, each
  process that loads Parsl would spend a quarter of a second on it: the controller, the interchange, two on
  each node.
- The checks of its arguments' types. For each of them typeguard parses Parsl's source again, for a third of
  a second; what diel hands to Parsl is checked by mypy.
- The HTTP client with which it would ask a server on the internet for this host's address.

What takes their place stays in Parsl's modules. So only a process that is diel's own loads Parsl like that:
one that begins with `own`. In somebody's notebook Parsl is loaded as it is.
"""

import importlib
import logging
import sys
from types import ModuleType

_INSTEAD: dict[str, ModuleType | None] = {
    "sqlalchemy": None,
    "typeguard": ModuleType("typeguard"),
    "requests": ModuleType("requests"),
}
"""What Parsl finds in place of packages; None: they count as not installed."""
vars(_INSTEAD["typeguard"])["typechecked"] = lambda function: function

_is_own = False


def own() -> None:
    """Declares that this process is diel's: nobody else's code runs in it.

    A line of a log that cannot be written, as on a full disk, is dropped in it: by default Python prints a
    traceback.
    """
    global _is_own
    _is_own = True
    logging.raiseExceptions = False


def load() -> None:
    """Loads Parsl."""
    placed = [name for name in _INSTEAD if _is_own and name not in sys.modules]
    for name in placed:
        sys.modules[name] = _INSTEAD[name]  # type: ignore[assignment]
    try:
        importlib.import_module("parsl")
    finally:
        for name in placed:
            del sys.modules[name]
