"""The programs of these tests, compiled as a user would compile them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.streams.served import Served

HERE = Path(__file__).parent
Compile = Callable[[str], Path]


@pytest.fixture(autouse=True)
def diel_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """`$(diel client)` finds the `diel` that is tested, as in a shell whose environment is activated."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compiles a source of this folder, in C or Fortran, with what `diel client` says."""
    folder = tmp_path_factory.mktemp("clients")

    def program(source: str) -> Path:
        made, fortran = folder / Path(source).stem, source.endswith(".f90")
        compiler = "gfortran" if fortran else "cc"
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not here: Debian has it in its packages gcc and gfortran")
        words = "$(diel client --fortran)" if fortran else "-Wall -Wextra -Werror $(diel client)"
        if not made.exists():
            line = f"{compiler} -g -O1 -o {made} {words} {HERE / source}"
            subprocess.run(["bash", "-c", line], check=True, cwd=folder)
        return made

    return program


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A broker of its own."""
    found = Served(tmp_path / "run")
    yield found
    found.end()
