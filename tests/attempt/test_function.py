"""One attempt of a Python module in this process: its arguments, and what it may raise."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diel.base.states import FailureClass
from diel.store.artifacts import Artifact
from diel.worker.attempt.bundle import Failure, Work
from diel.worker.attempt.function import call
from diel.worker.context import Context
from diel.workflow.modules.catalogue import find
from tests.worker.bench import Bench, request, worker_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as made:
        yield made


HEAD = "import diel, os, sys\nfrom pathlib import Path\n\n\n@diel.module(kind='analysis')\n"


def run(folder: Path, text: str, **more: Any) -> dict[str, Any]:
    """Calls a module; its values."""
    (folder / "modules").mkdir()
    (folder / "modules" / "made.py").write_text(HEAD + text)
    (folder / "task").mkdir()
    work = Work("s", find("made", [folder / "modules"]), {}, None, (), 1)
    given = request(0, **more)
    context = Context(folder / "task", run_dir=folder, params=given.params, inputs=given.inputs)
    return dict(call(work, given, context)[0])


def test_a_function_gets_what_it_asks_for(tmp_path: Path) -> None:
    text = (
        "def made(n: int, file: Path, files: list[Path], context: diel.Context, least: int = 7) -> dict:\n"
        "    return {'n': n + least, 'is_path': isinstance(file, Path), 'names': [one.name for one in files],\n"
        "            'index': context.index}\n"
    )
    inputs = {"file": Artifact("a.txt", "0"), "files": [Artifact("b.txt", "0"), Artifact("c.txt", "0")]}
    values = run(tmp_path, text, params={"n": 3}, inputs=inputs)
    assert values == {"n": 10, "is_path": True, "names": ["b.txt", "c.txt"], "index": 0}


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("raise ValueError('no luck')", FailureClass.APP, "ValueError: no luck"),
        ("sys.exit(3)", FailureClass.APP, "SystemExit: 3"),
        ("raise MemoryError", FailureClass.OOM, "MemoryError"),
        ("raise diel.Interrupted('saved')", FailureClass.INTERRUPTED, "saved"),
        (
            "from diel.base.errors import StreamLost; raise StreamLost('gone')",
            FailureClass.NODE,
            "StreamLost: gone",
        ),
        ("return {'x': object()}", FailureClass.APP, "output 'x'"),
    ],
)
def test_whatever_a_function_raises_is_a_failure(
    tmp_path: Path, body: str, kind: FailureClass, message: str
) -> None:
    with pytest.raises(Failure) as caught:
        run(tmp_path, f"def made() -> dict:\n    {body}\n")
    assert caught.value.kind == kind
    assert caught.value.message.startswith(message)


def test_an_error_without_a_text_is_told_by_its_name(tmp_path: Path) -> None:
    text = (
        "def made() -> dict:\n    class Odd(Exception):\n        def __str__(self):\n"
        "            raise RuntimeError\n    raise Odd\n"
    )
    with pytest.raises(Failure, match=r"^Odd$"):
        run(tmp_path, text)


def test_a_child_that_the_function_forked_does_not_come_back_as_the_worker(tmp_path: Path) -> None:
    worker = os.getpid()
    text = "def made() -> dict:\n    child = os.fork()\n    return {'left': os.waitpid(child, 0)[1] >> 8 if child else 0}\n"
    assert run(tmp_path, text) == {"left": 1}
    assert os.getpid() == worker


def test_a_module_that_cannot_be_imported_cannot_be_launched(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"made.py cannot be imported: ZeroDivisionError") as caught:
        run(tmp_path, "def made() -> dict:\n    return {}\n\n\n1 / 0\n")
    assert caught.value.kind == FailureClass.LAUNCH


TRACEBACK = "Traceback:\n  made\nValueError: no luck\n"
TELL = f"printf %s '{json.dumps(['app', 'ValueError: no luck', TRACEBACK])}' > .return.json.failure.1"


def test_a_rank_that_is_killed_while_it_tells_its_failure_hides_no_others(bench: Bench) -> None:
    """As by MPI, which ends all ranks with the first that fails."""
    module = bench.module("def made() -> dict:\n    return {}")
    script = f"{TELL}; : > .return.json.failure.0; exit 1"
    ((_, record),) = bench.run([request(0)], module=module, launcher=("sh", "-c", script)).records
    assert (record["class"], record["message"]) == ("app", "ValueError: no luck")


@pytest.mark.parametrize("passed_on", ["", "[1] Traceback:\n[1]   made\n[1] ValueError: no luck\n"])
def test_what_a_rank_raised_is_in_stderr_also_if_the_launcher_dropped_it(
    bench: Bench, passed_on: str
) -> None:
    module = bench.module("def made() -> dict:\n    return {}")
    script = f"{TELL}; printf '{passed_on}' >&2; exit 1"
    ((_, record),) = bench.run([request(0)], module=module, launcher=("sh", "-c", script)).records
    assert record["stderr_tail"] == (passed_on or TRACEBACK)
