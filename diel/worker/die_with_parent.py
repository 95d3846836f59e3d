"""Runs a program that ends with its parent: `python -m diel.worker.die_with_parent PARENT PROGRAM [ARG…]`.

The kernel tells this process of the end of PARENT (PR_SET_PDEATHSIG, prctl(2)), and it ends its group.
"""

import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""


def tie(parent: int, number: int = signal.SIGTERM.value) -> bool:
    """Make this process get a signal when its parent, or that thread, ends; tells if it lives."""
    try:
        import ctypes  # here: a Python without it does without this

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass  # no Linux: what is left over is found by its mark when the run is taken over
    return os.getppid() == parent


def main() -> None:
    """Run the program to its end, and ends as it did."""
    parent, words = int(sys.argv[1]), sys.argv[2:]

    def end(*_: object) -> None:
        if os.getppid() == parent:
            return  # whoever signals the group signals the program too
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
        time.sleep(GRACE)
        os.killpg(0, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end)
    if not tie(parent):
        sys.exit(1)
    try:
        child = subprocess.Popen(words)
    except OSError as error:
        print(f"cannot start '{words[0]}': {error.strerror}", file=sys.stderr)  # noqa: T201 - the task's
        sys.exit(127)
    code = child.wait()
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
