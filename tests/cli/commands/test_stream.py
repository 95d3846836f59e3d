"""`diel stream`: streams and the tuple space from a command line."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from diel.streams.client import Connection, connect
from tests.cli.call import Called, call
from tests.streams.served import ROOT, Served


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("runs") / "flow-1")
    yield served
    connect(served.run).disconnect()
    served.end()


class Shell:
    """The environment of tasks `make/0` and `use/0`, which are joined by a stream."""

    def __init__(
        self, run: Path, channel: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.connection: Connection = connect(run)
        self.connection.open(channel, groups={"use": ["use/0"]})
        self._channel = channel
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.setenv("DIEL_RUN_DIR", str(run))

    def task(self, name: str, attempt: int = 1, **more: Any) -> dict[str, str]:
        """What a task is told."""
        role = "put" if name.startswith("make") else "get"
        end = {
            "role": role,
            "channel": self._channel,
            "group": "use",
            "member": name,
            "attempt": attempt,
            **more,
        }
        told = {
            "DIEL_STREAMS": json.dumps({"samples": end}),
            "DIEL_TASK_ID": name,
            "DIEL_ATTEMPT": str(attempt),
        }
        for key, value in told.items():
            self._monkeypatch.setenv(key, value)
        return told

    def stream(self, *words: str, given: str = "") -> Called:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()), "utf-8"))
        called = call(self._capsys, "stream", *words)
        self.connection._ends.clear()  # the end of the process
        return called

    def flaw(self, end: dict[str, str], task: str) -> str:
        return self.connection.flaw(end, task, 1)[1]

    def close(self) -> None:
        self.connection.close(self._channel)


@pytest.fixture
def shell(
    shared: Served,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    return Shell(shared.run, request.node.name, monkeypatch, capsys)


def lines(*items: Any) -> str:
    return "".join(json.dumps(item) + "\n" for item in items)


def test_json_lines_go_in_and_come_out(shell: Shell) -> None:
    shell.task("make/0")
    assert shell.stream("put", "samples", given=lines({"t": 1.5}, [1, 2], "x")).code == 0
    shell.close()
    shell.task("use/0")
    got = shell.stream("get", "samples")
    assert (got.code, got.out) == (0, '{"t": 1.5}\n[1, 2]\n"x"\n')


def test_calls_of_one_task_go_on_where_the_one_before_stopped(shell: Shell) -> None:
    shell.task("make/0")
    for number in range(3):
        shell.stream("put", "samples", given=lines(number))
    shell.close()
    shell.task("use/0")
    got = [shell.stream("get", "samples", "--count", "1") for _ in range(4)]
    assert [(one.code, one.out) for one in got] == [(0, "0\n"), (0, "1\n"), (0, "2\n"), (1, "")]


def test_a_new_attempt_puts_again_and_gets_again_what_was_not_committed(shell: Shell) -> None:
    shell.task("make/0")
    shell.stream("put", "samples", given=lines(0))
    shell.stream("put", "samples", given=lines(1))
    shell.task("make/0", attempt=2)
    for number in range(3):
        shell.stream("put", "samples", given=lines(number))
    shell.close()
    shell.task("use/0")
    shell.stream("get", "samples", "--count", "1")
    assert shell.stream("commit", "samples").code == 0
    shell.stream("get", "samples", "--count", "1")
    shell.task("use/0", attempt=2)
    assert shell.stream("get", "samples").out == "1\n2\n"


def test_a_program_is_put_from_and_its_exit_code_is_the_commands(shell: Shell) -> None:
    shell.task("make/0")
    assert shell.stream("put", "samples", "--", "sh", "-c", "seq 2; exit 9").code == 9
    end = {"role": "put", "channel": shell._channel}
    assert "who put it failed" in shell.flaw(end, "make/0")
    assert shell.stream("put", "samples", "--", "sh", "-c", "echo 3; kill -9 $$").code == 137
    assert shell.stream("put", "samples", "--", "echo", "4").code == 0
    assert shell.flaw(end, "make/0") == ""
    assert shell.stream("put", "samples", "--", "no-such-program").code == 127
    wrong = shell.stream("put", "samples", "--", "sh", "-c", "echo no json; exec sleep 100")
    assert (wrong.code, "sh:1: expected one JSON value on each line" in wrong.err) == (2, True)
    shell.close()
    shell.task("use/0")
    assert shell.stream("get", "samples").out == "1\n2\n3\n4\n"


def test_a_program_gets_the_items_and_its_exit_code_is_the_commands(shell: Shell, tmp_path: Path) -> None:
    shell.task("make/0")
    shell.stream("put", "samples", "--", "seq", "5")
    shell.task("use/0")
    keep = f"head -n 2 > {tmp_path}/first"
    assert shell.stream("get", "samples", "--", "sh", "-c", f"{keep}; exit 3").code == 3, (
        "nobody waits for an end"
    )
    shell.task("use/0", attempt=2)
    assert shell.stream("get", "samples", "--count", "2", "--", "sh", "-c", f"cat > {tmp_path}/two").code == 0
    shell.close()
    assert shell.stream("get", "samples", "--", "sh", "-c", f"cat > {tmp_path}/rest; exit 7").code == 7
    assert (tmp_path / "first").read_text() == (tmp_path / "two").read_text() == "1\n2\n"
    assert (tmp_path / "rest").read_text() == "3\n4\n5\n"


def test_a_broken_stream_has_an_exit_code_of_its_own_and_its_program_meets_no_end(
    shell: Shell, tmp_path: Path
) -> None:
    shell.task("make/0")
    shell.stream("put", "samples", "--", "seq", "2")
    shell.connection.break_off(shell._channel, ["use"], "make/0 failed")
    shell.task("use/0")
    got = shell.stream("get", "samples")
    assert (got.code, got.out, "is broken: make/0 failed" in got.err) == (4, "1\n2\n", True)
    shell.task("use/0", attempt=2)
    saved = tmp_path / "saved"
    assert shell.stream("get", "samples", "--", "sh", "-c", f"cat > /dev/null; touch {saved}").code == 4
    assert not saved.exists()


def test_arrays_go_in_and_out_as_files_and_as_json(shell: Shell, tmp_path: Path) -> None:
    array = numpy.arange(6, dtype="f4").reshape(2, 3)
    numpy.save(tmp_path / "a.npy", array)
    shell.task("make/0")
    both = ["--npy", str(tmp_path / "a.npy"), "--npy", str(tmp_path / "a.npy")]
    assert shell.stream("put", "samples", *both).code == 0
    shell.close()
    shell.task("use/0")
    shown = json.loads(shell.stream("get", "samples", "--count", "1").out)
    assert shown == {"dtype": "<f4", "shape": [2, 3], "data": array.tolist()}
    path = json.loads(shell.stream("get", "samples", "--npy", str(tmp_path / "out")).out)
    assert numpy.array_equal(numpy.load(path), array)


def test_a_get_that_waits_too_long_says_so(shell: Shell) -> None:
    shell.task("use/0")
    got = shell.stream("get", "samples", "--timeout", "50ms")
    assert got.code == 1
    assert "no item in 0.05 s" in got.err


def test_each_rank_is_a_member_of_its_own(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.task("make/0", ranks=2)
    monkeypatch.setenv("PMI_RANK", "1")
    shell.stream("put", "samples", given=lines("a"))
    shell.stream("put", "samples", "--rank", "0", given=lines("b"))
    ((_, facts),) = [one for one in shell.connection.facts().items() if "each_rank" in one[0]]
    assert facts["producers"] == {"make/0.1": 1, "make/0.0": 1}


def test_a_program_at_the_other_end_of_a_pipe_gets_items_as_they_come(shared: Served, shell: Shell) -> None:
    told = shell.task("use/0")
    words = [sys.executable, "-m", "diel", "stream", "get", "samples"]
    env = {**told, "DIEL_RUN_DIR": str(shared.run), "PYTHONPATH": str(ROOT), "PATH": ""}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as process:
        producer = shell.connection.producer(shell._channel, "make/0", 1)
        assert process.stdout is not None
        for number in range(3):
            producer.put(number)
            assert process.stdout.readline() == f"{number}\n"
        shell.close()
        assert process.wait(30) == 0


def test_tuples_are_put_read_and_taken(shell: Shell) -> None:
    shell.task("make/0")
    key = json.dumps([shell._channel, 1])
    assert shell.stream("space", "put", key, '{"x": [1, 2]}').code == 0
    shell.stream("space", "put", json.dumps([shell._channel, 2]), "-", given="7")
    read = json.loads(shell.stream("space", "read", json.dumps([shell._channel, None])).out)
    assert read == {"key": [shell._channel, 1], "value": {"x": [1, 2]}}
    assert json.loads(shell.stream("space", "take", key).out) == read
    gone = shell.stream("space", "take", key, "--timeout", "50ms")
    assert gone.code == 1
    assert "no tuple fits" in gone.err


@pytest.mark.parametrize(
    ("words", "given", "message"),
    [
        (["put", "sample"], "", "did you mean 'samples'?"),
        (["get", "samples"], "", "is an output: `diel stream put` it"),
        (["put", "samples"], "{not json}\n", "<stdin>:1: expected one JSON value on each line"),
        (["put", "samples"], "1e400\n", "a number beyond 1.8e308"),
        (["put", "samples"], '{"t": 1, "t": 2}\n', 'the key "t" is there twice'),
        (["space", "put", "key", "1"], "", "KEY: expected JSON"),
        (["space", "put", '["a"]', "1e400"], "", "a number beyond 1.8e308"),
        (["space", "put", '["a"]', '{"t": 1, "t": 2}'], "", 'the key "t" is there twice'),
        (["get", "samples", "--timeout", "5"], "", "without a unit"),
        (["put", "samples", "--"], "", "no program after `--`"),
        (["put", "samples", "-", "--", "seq", "3"], "", "give only one of"),
    ],
)
def test_wrong_words_are_refused_with_what_is_meant(
    shell: Shell, words: list[str], given: str, message: str
) -> None:
    shell.task("make/0")
    called = shell.stream(*words, given=given)
    assert called.code == 2
    assert message in called.err


def test_outside_a_task_it_says_where_it_works(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["put", "x"], ["get", "x"], ["space", "read", "[1]"]):
        called = call(capsys, "stream", *words)
        assert called.code == 2
        assert "inside the command of a task" in called.err


# --- plain text, and one process for many operations -------------------------------------------------


def test_lines_put_text_as_it_stands_and_print_it_so(shell: Shell) -> None:
    shell.task("make/0")
    refused = shell.stream("put", "samples", given="2.5\nnot JSON\n")
    assert refused.code == 2
    assert "<stdin>:2: expected one JSON value on each line" in refused.err
    assert "`--lines` puts plain text" in refused.err
    shell.task("make/0", attempt=2)
    assert shell.stream("put", "samples", "--lines", given='2.5\nnot JSON\n\n  "a"').code == 0
    shell.close()
    shell.task("use/0")
    assert shell.stream("get", "samples", "--lines").out == '2.5\nnot JSON\n\n  "a"\n'
    assert shell.stream("put", "samples", "--lines", "--npy", __file__).code == 2


def answers(called: Called) -> list[Any]:
    return [json.loads(line) for line in called.out.splitlines()]


def test_one_process_does_an_operation_for_each_line(shell: Shell) -> None:
    shell.task("make/0")
    lines = [
        {"do": "put", "stream": "samples", "item": {"step": 1}},
        {"do": "put", "stream": "samples", "item": [2]},
        {"do": "put", "key": ["operate", 3], "value": "x"},
        {"do": "read", "key": ["operate", None]},
        {"do": "take", "key": ["operate", 3]},
        {"do": "take", "key": ["operate", 3], "timeout": 0.01},
    ]
    called = shell.stream("operate", given="\n".join(map(json.dumps, lines)))
    assert called.code == 0
    found = {"key": ["operate", 3], "value": "x"}
    assert answers(called) == [{"done": True}] * 3 + [found, found, {"timeout": True}]
    shell.close()
    shell.task("use/0")
    get = json.dumps({"do": "get", "stream": "samples"})
    commit = json.dumps({"do": "commit", "stream": "samples"})
    called = shell.stream("operate", given="\n".join([get, commit, get, get]))
    assert called.code == 0
    assert answers(called) == [{"item": {"step": 1}}, {"done": True}, {"item": [2]}, {"end": True}]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("put 3", 'expected {"do": "put"'),
        ('{"do": "put", "stream": "samples", "item": 1e400}', "a number beyond 1.8e308"),
        ('{"do": "put", "key": ["a"], "value": {"t": 1, "t": 2}}', 'the key "t" is there twice'),
        ('{"do": "pop", "stream": "samples"}', 'expected {"do": "put"'),
        ('{"do": "put", "stream": "samples"}', 'expected {"do": "put"'),
        ('{"do": "put", "stream": "sampels", "item": 1}', "did you mean 'samples'"),
        ('{"do": "get", "stream": "samples"}', "is an output"),
        ('{"do": "take", "key": "sum"}', "is not a key"),
        ('{"do": "take", "key": ["sum"], "timeout": "5s"}', '"timeout": SECONDS'),
    ],
)
def test_an_operation_that_cannot_be_done_is_answered_and_the_next_one_is_done(
    shell: Shell, line: str, words: str
) -> None:
    shell.task("make/0")
    called = shell.stream("operate", given=f'{line}\n{{"do": "put", "stream": "samples", "item": 1}}\n')
    wrong, done = answers(called)
    assert words in wrong["error"]
    assert done == {"done": True}
    assert called.code == 1
    assert "failed" in shell.flaw({"role": "put", "channel": shell._channel}, "make/0")
