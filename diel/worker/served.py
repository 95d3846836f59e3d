"""A service that is a Python module, in a process of its own: `python -m diel.worker.served CALL`."""

from __future__ import annotations

import os
import sys

from diel.attempt.bundle import Failure
from diel.attempt.function import call, read_call


def main() -> None:
    """Calls the module, which serves until it is told to stop."""
    job, request, context = read_call(sys.argv[1])
    os.chdir(context.task_dir)
    try:
        call(job, request, context, None)
    except Failure as failure:
        sys.stdout.flush()
        print(failure.message, file=sys.stderr, flush=True)  # noqa: T201 - the task's own output
        sys.exit(1)


if __name__ == "__main__":
    main()
