"""Programs in C and Fortran at the other end of Python's streams and tuples: each item arrives as it was."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy
import pytest

from diel.streams.client import Connection
from tests.clients.conftest import Compile
from tests.streams.served import Served

ITEMS: list[Any] = [
    {"text": 'Zürich "quoted" 🙂', "list": [1, 2.5, None, True], "empty": {}},
    b"",
    b"\0\1\2" * 100,
    b"large" * 50_000,
    "x" * 100_000,
    -0.25,
    numpy.arange(12.0).reshape(3, 4),
    {"step": 3, "positions": numpy.ones((7, 3), "f4"), "charges": [numpy.arange(5), numpy.zeros((2, 0))]},
    {"field": numpy.arange(60_000.0).reshape(300, 200), "mask": numpy.eye(4, dtype=bool)},
    numpy.array(["Å", "nm"]),
    numpy.linspace(0, 1, 5).astype(complex),
]


def started(program: Path, run: Path, *words: str) -> subprocess.Popen[str]:
    """The program as the command of task `echo/0`."""
    who = {"member": "echo/0", "attempt": 1}
    ends = {
        "given": {"role": "get", "channel": "make.given", "group": "echo", **who},
        "made": {"role": "put", "channel": "echo.made", **who},
    }
    about = {"DIEL_RUN_DIR": str(run), "DIEL_TASK_ID": "echo/0", "DIEL_ATTEMPT": "1"}
    environment = {**about, "DIEL_STREAMS": json.dumps(ends)}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [program, *words], env=environment, text=True, errors="replace", stdout=pipe, stderr=pipe
    )


@pytest.fixture
def connection(served: Served) -> Connection:
    found = Connection(served.run)
    found.open("make.given", groups={"echo": ["echo/0"]})
    found.open("echo.made", groups={"look": ["look/0"]})
    return found


def same(one: Any, other: Any) -> bool:
    if isinstance(one, numpy.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and (one == other).all())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def fed(connection: Connection, program: subprocess.Popen[str], items: list[Any]) -> list[Any]:
    """What the program made of these items."""
    producer = connection.producer("make.given", "make/0", 1)
    consumer = connection.consumer("echo.made", "look", "look/0", 1)
    for item in items:
        producer.put(item)
    producer.close()
    connection.close("make.given")
    _, errors = program.communicate(timeout=60)
    assert program.returncode == 0, errors
    connection.close("echo.made")
    return list(consumer)


def test_every_kind_of_item_passes_through_a_program_in_c_unchanged(
    served: Served, connection: Connection, compiled: Compile
) -> None:
    found = fed(connection, started(compiled("echo.c"), served.run), ITEMS)
    assert len(found) == len(ITEMS)
    for one, item in zip(found, ITEMS, strict=True):
        assert same(one, item), item
    assert connection.flaw({"role": "put", "channel": "echo.made"}, "echo/0", 1) == ("", "")
    assert connection.flaw({"role": "get", "channel": "make.given", "group": "echo"}, "echo/0", 1) == ("", "")


def test_mistakes_of_a_program_in_c_are_told_in_words(
    served: Served, connection: Connection, compiled: Compile
) -> None:
    text, errors = started(compiled("echo.c"), served.run, "wrong").communicate(timeout=60)
    lines = text.splitlines()
    assert not errors
    assert [line[0] for line in lines] == list("666626526")
    wanted = [
        "JSON",
        "JSON",
        "dtype",
        "input",
        "no item",
        "JSON",
        "not a key",
        "no tuple fits",
        "no stream 'givne'",
    ]
    for line, words in zip(lines, wanted, strict=True):
        assert words in line


def test_a_program_outside_a_task_says_so(compiled: Compile) -> None:
    ended = subprocess.run([compiled("echo.c")], env={}, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "DIEL_STREAMS is not set here" in ended.stderr


def test_a_program_in_fortran_sees_arrays_with_their_indices_turned(
    served: Served, connection: Connection, compiled: Compile
) -> None:
    fields = [numpy.arange(6.0).reshape(2, 3), numpy.arange(20_000.0).reshape(100, 200)]
    program = started(compiled("double.f90"), served.run)
    *found, last = fed(connection, program, fields)
    for one, field in zip(found, fields, strict=True):
        assert same(one, 2 * field), one
    assert last == {"fields": 2}


def test_the_library_is_built_by_make_where_it_is_told(tmp_path: Path) -> None:
    folder = subprocess.run(
        ["diel", "client", "--dir"], capture_output=True, text=True, check=True
    ).stdout.strip()
    subprocess.run(["make", "-s", "-C", folder, f"OUT={tmp_path / 'made'}"], check=True)
    assert (tmp_path / "made" / "libdiel.a").exists()


@pytest.mark.parametrize("language", ["c", "fortran"])
def test_the_programs_of_the_guide_compile(root: Path, language: str, tmp_path: Path) -> None:
    compiler, ending = {"c": ("cc", "c"), "fortran": ("gfortran", "f90")}[language]
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not here: Debian has it in its packages gcc and gfortran")
    pages = (root / "docs/c.md").read_text(encoding="utf-8")
    programs = re.findall(rf"^```{language}\n(.*?)^```$", pages, re.MULTILINE | re.DOTALL)
    assert programs
    folder = subprocess.run(
        ["diel", "client", "--dir"], capture_output=True, text=True, check=True
    ).stdout.strip()
    module = [] if language == "c" else [f"{folder}/diel.f90"]
    for number, program in enumerate(programs):
        path = tmp_path / f"{number}.{ending}"
        path.write_text(program, encoding="utf-8")
        subprocess.run(
            [compiler, "-Wall", "-Werror", "-fsyntax-only", f"-I{folder}", *module, path],
            check=True,
            cwd=tmp_path,
        )
