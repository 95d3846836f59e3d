"""A module in a process of its own: as a service, and as a rank of a task."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from diel.worker.attempt.bundle import Work
from diel.worker.attempt.function import RETURN_FILE
from diel.worker.context import Context
from diel.workflow.models import Service
from diel.workflow.modules.catalogue import find
from tests.worker.bench import request

HEAD = "import os\nimport diel\n\n\n@diel.module(kind='analysis')\n"


def called(
    folder: Path, text: str, launcher: Sequence[str] = (), **work: Any
) -> subprocess.CompletedProcess[str]:
    """Calls a module as a worker would."""
    (folder / "modules").mkdir()
    (folder / "modules" / "made.py").write_text(HEAD + text)
    (folder / "task").mkdir()
    given = request(0, params={"n": 3})
    whole = Work("s", find("made", [folder / "modules"]), {}, None, (), 1, **work)
    context = Context(folder / "task", run_dir=folder, params=given.params)
    (folder / "call").write_bytes(pickle.dumps((whole, given, context)))
    words = [*launcher, sys.executable, "-m", "diel.worker.function_runner", str(folder / "call")]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


SERVES = "def made(n: int) -> None:\n    print(n, os.path.basename(os.getcwd()))\n"


def test_a_service_works_in_its_tasks_directory(tmp_path: Path) -> None:
    ended = called(tmp_path, SERVES, service=Service())
    assert (ended.returncode, ended.stdout) == (0, "3 task\n")


def test_a_service_that_fails_says_so_after_all_that_it_printed(tmp_path: Path) -> None:
    ended = called(tmp_path, SERVES + "    raise ValueError('no port')\n", service=Service())
    assert (ended.returncode, ended.stdout) == (1, "3 task\n")
    assert ended.stderr.endswith("ValueError: no port\n")


RANK = "def made(n: int, context: diel.Context) -> dict:\n    return {'n': n, 'rank': context.rank}\n"


def test_rank_0_writes_the_result(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    ended = called(tmp_path, RANK)
    assert ended.returncode == 0, ended.stderr
    assert json.loads((tmp_path / "task" / RETURN_FILE).read_text())[0] == {"n": 3, "rank": 0}


@pytest.mark.parametrize(
    ("text", "ranks", "kind", "message"),
    [
        (RANK, 2, "launch", "2 ranks do not form one world: "),
        (RANK.replace("return", "raise ValueError('bad') or"), 1, "app", "ValueError: bad"),
    ],
)
def test_a_rank_that_fails_leaves_word_and_ends_them_all(
    tmp_path: Path, text: str, ranks: int, kind: str, message: str
) -> None:
    pytest.importorskip("mpi4py")
    assert called(tmp_path, text, ranks=ranks).returncode != 0
    told = json.loads((tmp_path / "task" / f"{RETURN_FILE}.failure.0").read_text())
    assert told[0] == kind
    assert told[1].startswith(message)
    assert not (tmp_path / "task" / RETURN_FILE).exists()


def test_ranks_that_fail_say_nothing_of_diel(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    launcher = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert launcher, "mpiexec is not there: pip install 'diel[mpi]'"
    text = RANK.replace("return", "raise ValueError('bad') or")
    ended = called(tmp_path, text, [launcher, "-n", "2"], ranks=2)
    assert ended.returncode != 0
    words = [path.read_text() for path in (tmp_path / "task").glob(f"{RETURN_FILE}.failure.*")]
    assert any("ValueError: bad" in word for word in words)  # a launcher may drop what dying ranks print
    assert "function_runner.py" not in ended.stderr
