"""Loads Parsl without the database library that its monitoring asks for.

diel does not use that monitoring. Where SQLAlchemy is installed, and Optuna brings it along, each process
that loads Parsl would spend a quarter of a second on it: the controller, the interchange, two on each node.
A line of its log that cannot be written, as on a full disk, is dropped: by default Python prints a traceback.
"""

import importlib
import logging
import sys

logging.raiseExceptions = False

_UNUSED = "sqlalchemy"

if _UNUSED in sys.modules:
    importlib.import_module("parsl")
else:
    sys.modules[_UNUSED] = None  # type: ignore[assignment]  # Parsl takes it for not installed
    try:
        importlib.import_module("parsl")
    finally:
        del sys.modules[_UNUSED]
