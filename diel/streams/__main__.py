"""The broker of a run: `python -m diel.streams RUN_DIR [--address ADDRESS]…`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from diel.errors import DielError
from diel.streams.contact import SILENCE
from diel.streams.server import serve


def main() -> int:
    """Serves until asked to stop; 1 with a message where it cannot."""
    parser = argparse.ArgumentParser(prog="python -m diel.streams", description=__doc__)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--address", action="append", help="where to listen; 127.0.0.1 if not given")
    parser.add_argument("--silence", type=float, default=SILENCE, help="seconds without a controller")
    parser.add_argument("--parent", type=int, help="the process to end with")
    given = parser.parse_args()
    try:
        serve(given.run_dir.resolve(), given.address or ("127.0.0.1",), given.silence, given.parent)
    except (DielError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 (nobody else tells)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
