"""Every broken workflow of tests/broken is refused: exit code 2, at the right place, in plain words.

The expected message stands in the file itself, in leading lines `# expect: LINE:COLUMN: KEY: MESSAGE`
and `# expect: HINT`; that of a file that it includes begins with its path. Files that no comment can stand in
are made here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from diel.cli import main

BROKEN = Path(__file__).parent / "broken"
FILES = sorted(BROKEN.glob("*.yaml"))
PLACE = re.compile(r"^(?:error: )?\S+:\d+:\d+: ", re.MULTILINE)
GOOD = b"diel: 1\nname: good\nstages:\n  a: {command: [echo, hello]}\n"


def expectations(path: Path) -> list[str]:
    """What the file itself says that its message must contain."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# expect: "):
            break
        found.append(line.removeprefix("# expect: "))
    return found


def check_told(path: Path, said: str) -> None:
    """What was said of a file is what the file expects, and no more."""
    expected = expectations(path)
    assert expected, "the file says not what it expects"
    own = [line for line in expected if re.match(r"\d+:\d+: ", line)]
    others = [line for line in expected if re.match(r"\S+\.yaml:\d+:\d+: ", line)]
    places = [*(f"{path}:{line}" for line in own), *(f"{path.parent}/{line}" for line in others)]
    for line in (*places, *(line for line in expected if line not in (*own, *others))):
        assert line in said
    assert len(PLACE.findall(said)) == len(places), f"more or fewer problems than expected:\n{said}"


Validate = Callable[[Path], tuple[int, str]]


@pytest.fixture
def validate(capsys: pytest.CaptureFixture[str]) -> Validate:
    """Runs `diel validate PATH` in this process; gives its exit code and standard error."""

    def run(path: Path) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["validate", str(path)])
        code = ended.value.code
        assert isinstance(code, int)
        return code, capsys.readouterr().err

    return run


def test_there_are_at_least_ninety_broken_files() -> None:
    assert len(FILES) >= 90


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_broken_file_is_refused_with_the_message_it_expects(validate: Validate, path: Path) -> None:
    started = time.monotonic()
    code, stderr = validate(path)
    assert code == 2
    assert "Traceback" not in stderr
    assert time.monotonic() - started < 60, "a broken file must be refused at once"
    check_told(path, stderr)


MADE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "1:1: the file is empty"),
    "spaces only": (b"   \n\n", "1:1: the file is empty"),
    "byte order mark only": (b"\xef\xbb\xbf", "1:1: the file is empty"),
    "latin-1": (b"diel: 1\nname: caf\xe9\n", "2:10: byte 0xe9 is not UTF-8"),
    "utf-16": ("diel: 1\n".encode("utf-16"), "1:1: byte 0xff is not UTF-8"),
    "cut inside a character": (GOOD + b"description: \xe2\x82", "5:14: byte 0xe2 is not UTF-8"),
    "NUL": (b"diel: 1\nname: a\0b\n", "2:8: a control character"),
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "1:1: byte 0x89 is not UTF-8"),
    "ten thousand brackets": (b"diel: 1\nname: " + b"[" * 10_000, "2:70: "),
    "ten thousand mappings": (b"diel: 1\nname: " + b"{a: " * 10_000, "nested more than 64 levels deep"),
    "a number of a million digits": (GOOD + b"x: " + b"1" * 10**6, "5:4: x: a whole number beyond 64 bits"),
    "too large": (GOOD + b"# " + b"x" * (16 * 2**20), "1:1: larger than 16 MiB"),
    "an endless line of colons": (b":" * 100_000, "1:100000: a ':' where no key can be"),
}


@pytest.mark.parametrize("name", MADE)
def test_a_file_that_is_no_text_is_refused_at_its_place(
    validate: Validate, tmp_path: Path, name: str
) -> None:
    content, expected = MADE[name]
    path = tmp_path / "workflow.yaml"
    path.write_bytes(content)
    code, stderr = validate(path)
    assert code == 2
    assert "Traceback" not in stderr
    assert expected in stderr
    assert PLACE.search(stderr)


def test_a_missing_file_is_refused_with_the_nearest_name(validate: Validate, tmp_path: Path) -> None:
    (tmp_path / "melt.yaml").write_bytes(GOOD)
    code, stderr = validate(tmp_path / "mlet.yaml")
    assert code == 2
    assert "mlet.yaml:1:1: no such file" in stderr
    assert "did you mean 'melt.yaml'?" in stderr


def test_a_directory_is_refused(validate: Validate, tmp_path: Path) -> None:
    code, stderr = validate(tmp_path)
    assert code == 2
    assert f"{tmp_path}:1:1: this is a directory" in stderr


def test_a_pipe_without_a_writer_is_refused_and_not_waited_for(validate: Validate, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    code, stderr = validate(tmp_path / "pipe.yaml")
    assert code == 2
    assert "this is not an ordinary file" in stderr


def test_a_file_that_may_not_be_read_is_refused(
    validate: Validate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.yaml"
    path.write_bytes(GOOD)
    path.chmod(0)
    if os.access(path, os.R_OK):  # root reads everything, so the system's refusal is played to it

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("builtins.open", refuse)
    code, stderr = validate(path)
    assert code == 2
    assert "secret.yaml:1:1: cannot be read: permission denied" in stderr


@pytest.mark.parametrize("name", ["key-retrys", "yaml-alias-bomb", "graph-cycle", "expression-import"])
def test_the_installed_command_says_the_same(root: Path, name: str) -> None:
    path = BROKEN / f"{name}.yaml"
    words = [sys.executable, "-m", "diel", "validate", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for line in expectations(path):
        assert line in done.stderr
    assert not done.stdout
