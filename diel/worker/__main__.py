"""A worker at the end of a pipe: reads packed bundles, writes packed reports.

    python -m diel.worker

Ends when its pipe does: a worker whose controller is gone finishes the task that it is at, commits
the result for `resume` to find, and exits.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback

from diel.errors import DielError
from diel.worker.process import run_bundle


def main() -> None:
    """Serves one bundle after the other."""
    source = os.fdopen(os.dup(0), "rb")
    target = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout.flush()
    try:
        while True:
            packed: bytes = pickle.load(source)
            report = run_bundle(packed)
            target.write(len(report).to_bytes(8) + report)
            target.flush()
    except (DielError, OSError):
        os._exit(os.EX_IOERR)  # its files cannot be written: the controller meets the same, and tells it
    except EOFError:
        os._exit(0)  # at once: a thread that a module left behind must not hold the worker
    except BaseException:
        traceback.print_exc()
        os._exit(1)


if __name__ == "__main__":
    main()
