"""`diel client`: what a compiler is told about the library for C and Fortran."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path

import click

from diel.paths import shipped

SOURCES = ("json.c", "items.c", "wire.c", "ends.c")


@click.command("client")
@click.option("--fortran", "what", flag_value="fortran", help="The words for a Fortran compiler.")
@click.option("--libs", "what", flag_value="libs", help="Only what links a program with ZeroMQ.")
@click.option("--dir", "what", flag_value="dir", help="Only the folder of the sources, for `make -C`.")
def command(what: str | None) -> None:
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
    """What links a program with the libzmq that pyzmq brings; the system's where pyzmq was built on that."""
    spec = find_spec("zmq")
    assert spec is not None
    assert spec.origin is not None
    brought = sorted(Path(spec.origin).parent.parent.glob("pyzmq.libs/libzmq*.so*"))
    return [str(brought[0]), f"-Wl,-rpath,{brought[0].parent}"] if brought else ["-lzmq"]
