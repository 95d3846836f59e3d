"""A Python module in processes of its own: `python -m diel.worker.function_runner CALL`.

These are the ranks of a task (`mpiexec -n 2 python -m …`), a service, or a task in an environment.
"""

import dataclasses
import json
import os
import sys

from diel.base.files import put
from diel.base.paths import RunPaths
from diel.base.states import FailureClass
from diel.store.artifacts import Artifacts, Values
from diel.streams.services.endpoint import EXECUTED, message_file, notes_of
from diel.worker.attempt.bundle import Failure, Request, Work
from diel.worker.attempt.function import RETURN_FILE, call, read_call
from diel.worker.attempt.staging import on_this_node
from diel.worker.context import Context
from diel.worker.staging.disk import leave_notes
from diel.workflow.modules.beside import imports_beyond, keep_notes
from diel.workflow.modules.sources import digest_of_bytes


def main() -> None:
    """Call the module as its work says."""
    work, request, context = read_call(sys.argv[1])
    if work.service is not None:
        _serve(work, request, context)
    elif work.launcher or work.ranks > 1:
        _run_rank(work, request, context)
    else:
        _run_alone(work, request, context)


def _run_alone(work: Work, request: Request, context: Context) -> None:
    """Call the module in this process."""
    try:
        result = call(work, request, context)
    except Failure as failure:
        _tell(context, failure)
        sys.exit(os.EX_TEMPFAIL if failure.kind == FailureClass.INTERRUPTED else 1)
    _leave(work, context, result)


def _serve(work: Work, request: Request, context: Context) -> None:
    """Call the module, which serves until it is stopped."""
    os.chdir(context.task_dir)
    paths, at = RunPaths(context.run_dir), (work.stage, request.index, request.attempt)
    keep_notes(str(message_file(paths, *at, EXECUTED)), notes_of(paths, request.services))
    try:
        call(work, request, context)
    except Failure as failure:
        sys.stdout.flush()
        print(failure.message, file=sys.stderr, flush=True)  # noqa: T201 - the task's own output
        sys.exit(1)


def _run_rank(work: Work, request: Request, context: Context) -> None:
    """Call the module on this rank; rank 0 writes the result, a rank that fails ends them all."""
    try:
        from mpi4py import MPI  # starts MPI, so it must not happen on import
    except ImportError as error:
        _tell(context, Failure(FailureClass.LAUNCH, f"{error}: the Python of its ranks needs mpi4py"))
        sys.exit(1)
    communicator = MPI.COMM_WORLD
    request = on_this_node(request, context.local)
    context = dataclasses.replace(
        context,
        rank=communicator.Get_rank(),
        ranks=communicator.Get_size(),
        params=request.params,
        inputs=request.inputs,
    )
    try:
        if context.ranks != work.ranks:
            raise Failure(FailureClass.LAUNCH, _apart(work.ranks, context.ranks, MPI.Get_library_version()))
        result = call(work, request, context, communicator)
    except Failure as failure:
        _tell(context, failure)
        if failure.kind == FailureClass.INTERRUPTED:  # MPI's end waits for the ranks that still save
            sys.exit(os.EX_TEMPFAIL)
        communicator.Abort(1)
        os._exit(1)  # MPICH returns before the launcher has ended the ranks, for whom MPI's own end waits
    _leave(work, context, result)


def _tell(context: Context, failure: Failure) -> None:
    """Leave a failure for the worker."""
    file = context.task_dir / f"{RETURN_FILE}.failure.{context.rank}"
    file.write_text(json.dumps([failure.kind, failure.message, failure.traceback]), encoding="utf-8")
    sys.stdout.flush()
    sys.stderr.flush()


def _leave(work: Work, context: Context, result: tuple[Values, Artifacts]) -> None:
    """Leave what rank 0 returned and all executed for the worker, and what was brought to the node."""
    if context.shards or context.local is not None:
        leave_notes(str(context.task_dir))
    imports = imports_beyond(work.module.files if work.module else ())
    file = context.task_dir / RETURN_FILE
    if context.rank == 0:
        put(file, json.dumps([*result, imports]))
    elif imports:  # all ranks that imported the same leave one file
        text = json.dumps(imports, sort_keys=True)
        put(f"{file}.imports.{digest_of_bytes(text.encode())}", text)


def _apart(expected: int, actual: int, version: str) -> str:
    name = version.split(",")[0].partition("\n")[0].strip()
    return (
        f"{expected} ranks do not form one world: {name}, which mpi4py loads, knows of {actual}; "
        "let `launcher` of the site file name the mpiexec of that MPI"
    )


if __name__ == "__main__":
    main()
