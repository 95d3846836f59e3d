"""A program at the other end of a `diel stream`."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from diel.base.errors import DielError
from diel.cli.commands.stream import Program
from tests.cli.call import call
from tests.throwaway import wait_for


def reading(text: str) -> Program:
    return Program(("sh", "-c", text), stdin=subprocess.PIPE, stdout=None)


@pytest.mark.parametrize(("text", "code"), [("exit 9", 9), ("kill -9 $$", 137), ("cat > /dev/null", 0)])
def test_its_exit_code_is_that_of_a_shell(text: str, code: int) -> None:
    with reading(text) as program:
        assert program.wait() == code
        assert program.process.poll() is not None


def test_a_program_that_cannot_start_has_the_exit_code_of_a_shell(tmp_path: Path) -> None:
    (tmp_path / "text").touch(0o644)
    for word, code in (("no-such-program", 127), (str(tmp_path / "text"), 126)):
        with pytest.raises(DielError, match="cannot start") as found:
            Program((word,), stdin=None, stdout=None)
        assert found.value.exit_code == code


def test_an_error_ends_it_before_it_could_take_that_for_the_end_of_its_items(tmp_path: Path) -> None:
    saved, reads = tmp_path / "saved", tmp_path / "reads"
    program = reading(f"touch {reads}; cat; touch {saved}")

    def broken() -> None:
        with program:
            wait_for(reads.exists)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        broken()
    assert program.process.poll() is not None
    assert not saved.exists()


def test_it_gets_the_signals_that_the_command_gets(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    ready = tmp_path / "ready"
    with reading(f"trap 'exit 5' TERM; touch {ready}; while :; do sleep 0.02; done") as program:
        wait_for(ready.exists)
        os.kill(os.getpid(), signal.SIGTERM)
        assert program.wait() == 5
    assert signal.getsignal(signal.SIGTERM) is before


def test_its_end_is_told(tmp_path: Path) -> None:
    told = tmp_path / "told"
    with reading("cat > /dev/null") as program:
        program.when_ended(told.touch)
        print("item", file=program.pipe, flush=True)
        assert not told.exists()
        program.wait()
        assert told.exists(), "before the command ends"


def test_words_are_wanted_behind_the_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    said = call(capsys, "stream", "put", "samples", "--")
    assert (said.code, "no program after `--`" in said.err) == (2, True)
