"""One MPI rank of a Python module: `mpiexec -n 2 python -m diel.worker.ranks CALL`."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import sys
from pathlib import Path

from diel.states import FailureClass
from diel.worker.bundle import Failure
from diel.worker.function import RETURN_FILE, call


def main() -> None:
    """Calls the module on this rank; rank 0 writes the result, a rank that fails ends them all."""
    from mpi4py import MPI  # starts MPI, so it must not happen on import

    communicator = MPI.COMM_WORLD
    module, request, context = pickle.loads(Path(sys.argv[1]).read_bytes())
    context = dataclasses.replace(context, rank=communicator.Get_rank())
    try:
        result = call(module, request, context, communicator)
    except Failure as failure:
        told = context.task_dir / f"{RETURN_FILE}.failure.{context.rank}"
        told.write_text(json.dumps([failure.kind, failure.message]), encoding="utf-8")
        sys.stdout.flush()
        sys.stderr.flush()
        if failure.kind == FailureClass.INTERRUPTED:  # MPI's end waits for the ranks that still save
            sys.exit(os.EX_TEMPFAIL)
        communicator.Abort(1)
    if context.rank == 0:
        path = context.task_dir / RETURN_FILE
        part = path.with_suffix(".part")
        part.write_text(json.dumps(result), encoding="utf-8", errors="surrogateescape")
        os.replace(part, path)


if __name__ == "__main__":
    main()
