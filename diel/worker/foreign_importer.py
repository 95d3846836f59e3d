"""Calls a module in a Python without diel, an environment's: `python3 foreign_importer.py CALL FOLDER…`.

diel is taken from where this file is, and from the FOLDERs the few packages that it needs, if this Python has
none of its own. Nothing else of the Python that runs diel can be imported here.
"""

import importlib.util
import json
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

LEAST = (3, 11)
DIEL = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class ForeignImporter:
    """Finds packages by the folders in which they are."""

    def __init__(self, *folders: str) -> None:
        self._folders = {os.path.basename(folder): folder for folder in folders}

    def find_spec(
        self, name: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        folder = self._folders.get(name)
        if folder is None:
            return None
        return importlib.util.spec_from_file_location(
            name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )


def refuse(why: str) -> NoReturn:
    """End this process with a failure that the worker finds: `launch`."""
    with open(f"{os.path.dirname(sys.argv[1])}/.return.json.failure.0", "w", encoding="utf-8") as file:
        json.dump(["launch", f"{sys.executable} {why}"], file)
    sys.exit(1)


def main() -> None:
    """Lends diel to this Python, and calls the module as the worker wrote."""
    if sys.version_info < LEAST:
        refuse(f"is Python {sys.version.split()[0]}, and functions need 3.11 or newer")
    if sys.path[:1] == [os.path.dirname(os.path.abspath(__file__))]:
        del sys.path[0]  # the files beside this one are no modules of a user's
    lent: list[Any] = [ForeignImporter(DIEL), ForeignImporter(*sys.argv[2:])]
    sys.meta_path.insert(0, lent[0])
    sys.meta_path.append(lent[1])
    try:
        from diel.worker import function_runner  # here: it is lent by now
    except ImportError as error:
        refuse(f"cannot call a function for diel: {error}; add psutil and xxhash to its packages")
    function_runner.main()


if __name__ == "__main__":
    main()
