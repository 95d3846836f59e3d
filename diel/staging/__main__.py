"""`python -m diel.staging PLAN`: brings a task's inputs to this node; one process on each of its nodes."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

from diel.staging.drawing import fetch, leave_notes, note


def main() -> None:
    """Reads the plan that the task's worker left, and tells it what became of that."""
    items, local, task_dir = pickle.loads(Path(sys.argv[1]).read_bytes())  # noqa: S301 - from the worker
    brought, _ = fetch(items, local, os.environ)
    note(brought)
    leave_notes(task_dir, all_of_them=True)


if __name__ == "__main__":
    main()
