"""What tasks print lands beside them, whatever they do to their streams."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, sys
from pathlib import Path
from diel.worker.attempt.capture import Capture, read_tail

folder = Path(sys.argv[1])
def state():
    files = [sys.stdin, sys.__stdin__, sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__]
    modes = [(f.encoding, f.errors, f.line_buffering, f.write_through, sorted(vars(f))) for f in files]
    return files, modes, os.fstat(0)[:3]

capture = Capture(folder, "worker")
before = state()
print("one", end="", flush=True); os.write(1, b"(raw)"); os.system("echo child >&2")
assert read_tail() == "child\\n"
assert capture.collect(str(folder / "0"))
assert not capture.collect(str(folder / "1"))
{body}
print("late"); print("later", file=sys.stderr)
capture.recover()
assert capture.collect(str(folder / "2"))
assert sys.stdout.fileno() == 1 and sys.stderr.fileno() == 2
assert state() == before, "whoever has kept a stream goes on with it"
"""


def caught(folder: Path, body: str = "") -> dict[str, str]:
    """What the program's tasks printed, by file."""
    program = PROGRAM.replace("{body}", body)
    subprocess.run([sys.executable, "-c", program, str(folder)], check=True, timeout=30)
    return {str(path.relative_to(folder)): path.read_text(errors="replace") for path in folder.rglob("std*")}


OUTPUT = {"0/stdout": "one(raw)", "0/stderr": "child\n", "2/stdout": "late\n", "2/stderr": "later\n"}


def test_output_lands_in_files_beside_the_task_and_a_silent_one_gets_none(tmp_path: Path) -> None:
    assert caught(tmp_path) == OUTPUT
    assert not any(path.stat().st_size for path in tmp_path.glob("worker*"))


def test_streams_that_a_task_closed_or_replaced_serve_the_next_one(tmp_path: Path) -> None:
    ways = (
        "os.close(1)",
        "os.close(2)",
        "os.close(1); os.close(2)",
        "sys.stdout.close(); sys.stderr.close()",
        "sys.stdout = sys.stderr = open(os.devnull, 'w')",
        "sys.stdout = sys.stderr = None",
        "sys.stdout.detach()",
        "sys.stderr.detach().close()",
        "with sys.stdout as out: pass",
        "sys.__stdout__ = sys.__stderr__ = None",
        "sys.stdout.reconfigure(encoding='ascii', errors='strict', line_buffering=True, newline='\\r\\n')",
        "sys.stderr.reconfigure(encoding='utf-16', write_through=True)",
        "sys.stdout.write = print",
        "os.close(0)",
        "sys.stdin.close(); os.close(0); os.close(1); os.close(2)",
        "sys.stdin = None",
        "os.close(1); open(os.devnull)",
        "os.dup2(os.open(folder / 'other', os.O_WRONLY | os.O_CREAT), 1)",
        "os.unlink(folder / 'worker.stdout')" + "; os.close(1)",
    )
    for number, way in enumerate(ways):
        folder = tmp_path / str(number)
        folder.mkdir()
        body = f"{way}\ncapture.recover()\ncapture.collect(str(folder / '1'))"
        assert caught(folder, body) == OUTPUT, way


def test_the_tail_is_the_end_of_long_output_and_always_text(tmp_path: Path) -> None:
    body = (
        "os.write(2, b'x' * 10_000 + b'\\xff end')\n"
        "assert read_tail().endswith('x\\ufffd end') and len(read_tail()) == 4096\n"
        "capture.collect(str(folder / '1'))"
    )
    assert caught(tmp_path, body)["2/stdout"] == "late\n"
