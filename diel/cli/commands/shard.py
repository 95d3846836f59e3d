"""For programs in any language: `shard` gives a rank or task its items, `client` a compiler its words."""

import os
import shlex
from importlib.util import find_spec
from pathlib import Path

import click

from diel.base.errors import ModuleError, UsageError, did_you_mean
from diel.base.paths import shipped
from diel.worker.staging.disk import leave_notes
from diel.worker.staging.shard import draw, read_shards

RANK = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PALS_RANKID", "SLURM_PROCID")
RANKS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PALS_SIZE", "SLURM_NTASKS")
"""Where launchers leave the number of a rank and the count of ranks; the first one set counts: MPICH and
Intel MPI, PMIx, Open MPI, HPE's PALS, Slurm."""
SOURCES = ("json.c", "items.c", "wire.c", "ends.c")
"""Of the library for C."""


@click.command("shard")
@click.argument("name")
@click.option("--epoch", default=0, type=click.IntRange(min=0), help="Which epoch (0).")
@click.option("--rank", type=click.IntRange(min=0), help="Which rank; the launcher's number if absent.")
@click.option("--ranks", type=click.IntRange(min=1), help="How many ranks; the launcher's count if absent.")
@click.option("-0", "--null", is_flag=True, help="End each item with a NUL character, for `xargs -0`.")
def command(name: str, epoch: int, rank: int | None, ranks: int | None, null: bool) -> None:
    """Print the items of input NAME that this rank or task gets in an epoch, one on each line. Works inside
    the command of a task whose input NAME has `shard` in the workflow. Files are printed as paths (on the
    node's own disk with `stage: node`), rows of an array as numbers.
    """
    try:
        shards, inputs, local = read_shards(os.environ)
        if name not in shards:
            hint = did_you_mean(name, shards) or f"inputs with `shard`: {', '.join(shards)}"
            raise UsageError(f"no input '{name}' has `shard` here; {hint}")
        if shards[name].by == "rank":
            rank = from_launcher("rank", RANK) if rank is None else rank
            ranks = from_launcher("ranks", RANKS) if ranks is None else ranks
        drawn = draw(name, inputs[name], shards[name], rank or 0, ranks or 1, epoch, local, os.environ)
    except ModuleError as error:  # here the reader is a user, not a module
        raise UsageError(str(error)) from error
    leave_notes(os.environ.get("DIEL_TASK_DIR", "."))
    for item in drawn:
        click.echo(os.fspath(item) if isinstance(item, os.PathLike) else item, nl=not null)
        if null:
            click.echo("\0", nl=False)


def launched(names: tuple[str, ...]) -> int | None:
    """Return a number that the launcher left in the environment; None if it left none."""
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdecimal()), None)


def from_launcher(what: str, names: tuple[str, ...]) -> int:
    """As `launched`, but raises UsageError if the launcher left none."""
    number = launched(names)
    if number is None:
        raise UsageError(f"no launcher gives the {what} here ({', '.join(names)}): give --{what}")
    return number


@click.command("client")
@click.option("--fortran", "what", flag_value="fortran", help="The words for a Fortran compiler.")
@click.option("--libs", "what", flag_value="libs", help="Only what links a program with ZeroMQ.")
@click.option("--dir", "what", flag_value="dir", help="Only the folder of the sources, for `make -C`.")
def client(what: str | None) -> None:
    """\b
    cc       -O2 -o simulate simulate.c $(diel client)
    gfortran -O2 -o simulate $(diel client --fortran) simulate.f90
    make -C "$(diel client --dir)" OUT=$PWD          # libdiel.a and diel.mod

    With that, `#include "diel.h"` or `use diel` has the items and tuples that Python modules put and get.
    docs/c.md is the guide.
    """
    folder = shipped("clients") / "c"
    if what == "dir":
        click.echo(folder)
        return
    sources = ("diel.f90", *SOURCES) if what == "fortran" else SOURCES
    words = [] if what == "libs" else [f"-I{folder}", *(str(folder / name) for name in sources)]
    click.echo(shlex.join([*words, *_zmq(), "-pthread"]))


def _zmq() -> list[str]:
    """Return the options that link a program with pyzmq's libzmq, or the system's where pyzmq uses that."""
    spec = find_spec("zmq")
    assert spec is not None
    assert spec.origin is not None
    brought = sorted(Path(spec.origin).parent.parent.glob("pyzmq.libs/libzmq*.so*"))
    return [str(brought[0]), f"-Wl,-rpath,{brought[0].parent}"] if brought else ["-lzmq"]
