"""A service that is a Python module, in a process of its own: `python -m diel.worker.served CALL`."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from pathlib import Path

from diel.worker.bundle import Failure
from diel.worker.function import call
from diel.worker.tied import tie


def main() -> None:
    """Calls the module, which serves until it is told to stop."""
    if not tie(signal.SIGTERM):
        sys.exit(1)
    job, request, context = pickle.loads(Path(sys.argv[1]).read_bytes())
    os.chdir(context.task_dir)
    try:
        call(job, request, context, None)
    except Failure as failure:
        sys.stdout.flush()
        print(failure.message, file=sys.stderr, flush=True)  # noqa: T201 - the task's own output
        sys.exit(1)


if __name__ == "__main__":
    main()
