"""Streams beside raw pyzmq: items a second, gigabytes a second, latency; a producer, a consumer, each a process.

`python tests/benchmarks streams` prints it. Both ends do what a task does: objects in, objects out. Raw PUSH/PULL is
one message an item without a broker and without a disk; plain, and with the encryption that streams have.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
import zmq

from diel.streams.client import connect

ROOT = Path(__file__).resolve().parents[2]
SMALL = 100_000
ARRAYS = 2048
RATE = 1000
"""Items a second where latency is measured."""
SECONDS = 3
SERVER = ("Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID", "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs")
CLIENT = ("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7", "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6")
"""The key pairs of ZeroMQ's documents: for speed only."""


def small(number: int) -> dict[str, Any]:
    return {"step": number, "energy": -1.5, "temperature": 0.7}


def items(kind: str) -> Iterator[Any]:
    """What is put: numbered small objects, or arrays of 1 MiB."""
    if kind == "small":
        yield from map(small, range(SMALL))
        return
    array = numpy.ones(1024 * 1024 // 8)
    for number in range(ARRAYS):
        array[0] = number
        yield array


# --- the ends, each a process ---------------------------------------------------------------------


def put(kind: str, where: str) -> None:
    producer = connect(Path(where)).producer(kind, "put/0", 1)
    say("ready")
    if kind == "paced":
        begun = time.monotonic()
        for number in range(RATE * SECONDS):
            time.sleep(max(0.0, begun + number / RATE - time.monotonic()))
            producer.put({"step": number, "at": time.monotonic()})
    else:
        say(time.monotonic())
        for item in items(kind):
            producer.put(item)
    producer.close()
    connect(Path(where)).close(kind)


def get(kind: str, where: str) -> None:
    consumer = connect(Path(where)).consumer(kind, "get", "get/0", 1)
    say("ready")
    if kind == "paced":
        late = sorted(time.monotonic() - item["at"] for item in consumer)
        say([late[len(late) // 2], late[math.ceil(0.99 * len(late)) - 1], late[-1]])
        return
    check(kind, iter(consumer))
    say(time.monotonic())


def check(kind: str, got: Iterator[Any]) -> None:
    """Reads all items, and every number of the arrays once."""
    for number in range(SMALL if kind == "small" else ARRAYS):
        item = next(got)
        found = item["step"] if kind == "small" else item[0]
        assert found == number, (found, number)


def raw_socket(kind: int, mode: str) -> zmq.Socket[bytes]:
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(kind)
    if mode == "curve" and kind == zmq.PULL:
        socket.curve_server = True
        socket.curve_secretkey = SERVER[1].encode()
    elif mode == "curve":
        socket.curve_serverkey = SERVER[0].encode()
        socket.curve_publickey, socket.curve_secretkey = CLIENT[0].encode(), CLIENT[1].encode()
    return socket


def raw_put(kind: str, mode: str, port: str) -> None:
    socket = raw_socket(zmq.PUSH, mode)
    socket.connect(f"tcp://127.0.0.1:{port}")
    say(time.monotonic())
    for item in items(kind):
        if kind == "small":
            socket.send(json.dumps(item).encode())
        else:
            socket.send(item)  # copied: it is sent later, and the array changes
    socket.close()
    zmq.Context.instance().term()  # waits until all is sent


def raw_get(kind: str, mode: str) -> None:
    socket = raw_socket(zmq.PULL, mode)
    say(socket.bind_to_random_port("tcp://127.0.0.1"))

    def received() -> Iterator[Any]:
        while True:
            if kind == "small":
                yield json.loads(socket.recv())
            else:
                frame = socket.recv(copy=False)
                yield numpy.frombuffer(frame.buffer)

    check(kind, received())
    say(time.monotonic())


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


# --- measuring -------------------------------------------------------------------------------------


class End:
    """One end, and what it says."""

    def __init__(self, *words: str, program: Path | None = None) -> None:
        begin = [sys.executable, __file__] if program is None else [str(program)]
        environment = dict(os.environ)
        if program is not None:  # a program in C finds in its surroundings what a task would find there
            role, kind, run = words
            end = {"role": role, "channel": kind, "group": "get", "member": f"{role}/0", "attempt": 1}
            environment |= {"DIEL_RUN_DIR": run, "DIEL_STREAMS": json.dumps({"x": end})}
            words = words[:2]
        self.process = subprocess.Popen(
            [*begin, *words], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
        )

    def hear(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@contextmanager
def broker() -> Iterator[Path]:
    """A run's folder with a broker."""
    folder = Path(tempfile.mkdtemp(prefix="diel-benchmark-"))
    run = folder / "run-1"
    run.mkdir()
    process = subprocess.Popen([sys.executable, "-m", "diel.streams.server", str(run)], cwd=ROOT)
    try:
        yield run
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def compiled(folder: Path) -> Path:
    """The ends in C."""
    made = folder / "ends"
    line = f"cc -O2 -o {made} {Path(__file__).with_name('ends.c')} $({sys.executable} -m diel client)"
    subprocess.run(["sh", "-c", line], check=True)
    return made


def seconds(kind: str, replay: bool = True, program: Path | None = None) -> float:
    """From the first put to the last item read; both ends are this program in C, where there is one."""
    with broker() as run:
        connection = connect(run)
        connection.open(kind, groups={"get": ["get/0"]}, replay=replay)
        reader = End("get", kind, str(run), program=program)
        reader.hear()
        writer = End("put", kind, str(run), program=program)
        writer.hear()
        begun = writer.hear()
        took: float = reader.hear() - begun
        writer.process.wait()
        reader.process.wait()
        connection.disconnect()
    return took


def of_commands(words: list[str], lines: int) -> float:
    """Seconds of `diel stream` with so many lines of standard input, in a task that puts into a stream."""
    line = '{"do": "put", "stream": "samples", "item": {"step": 1}}' if "operate" in words else '{"step": 1}'
    with broker() as run:
        connection = connect(run)
        connection.open("commands", groups={})
        end = {"role": "put", "channel": "commands", "group": "", "member": "put/0", "attempt": 1}
        about = {"DIEL_RUN_DIR": str(run), "DIEL_TASK_ID": "put/0", "DIEL_ATTEMPT": "1"}
        environment = {**os.environ, **about, "DIEL_STREAMS": json.dumps({"samples": end})}
        begun = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "diel", "stream", *words],
            input=f"{line}\n" * lines,
            env=environment,
            stdout=subprocess.DEVNULL,
            text=True,
            check=True,
        )
        took = time.monotonic() - begun
        connection.disconnect()
    return took


def raw_seconds(kind: str, mode: str) -> float:
    reader = End("raw_get", kind, mode)
    writer = End("raw_put", kind, mode, str(reader.hear()))
    begun = writer.hear()
    took: float = reader.hear() - begun
    writer.process.wait()
    return took


def latencies() -> list[float]:
    """Median, 99th percentile and greatest, in seconds."""
    with broker() as run:
        connection = connect(run)
        connection.open("paced", groups={"get": ["get/0"]})
        reader = End("get", "paced", str(run))
        reader.hear()
        writer = End("put", "paced", str(run))
        found: list[float] = reader.hear()
        writer.process.wait()
        reader.process.wait()
        connection.disconnect()
    return found


def streams(runs: int, show: Callable[[str, str, str], None]) -> None:
    """Prints the figures: the median of `runs`, each kind beside the client in C and raw pyzmq in turn."""
    with tempfile.TemporaryDirectory() as folder:
        _streams(runs, show, compiled(Path(folder)))


def _streams(runs: int, show: Callable[[str, str, str], None], program: Path) -> None:
    for kind, what, scale, unit in (
        ("small", f"{SMALL:,} small items through a stream", SMALL / 1e3, "thousand/s"),
        ("arrays", f"{ARRAYS:,} arrays of 1 MiB through a stream", ARRAYS * 2**20 / 1e9, "GB/s"),
    ):
        found: dict[str, list[float]] = {"stream": [], "in c": [], "passing": [], "plain": [], "curve": []}
        for _ in range(runs):
            found["stream"].append(scale / seconds(kind))
            found["in c"].append(scale / seconds(kind, program=program))
            found["passing"].append(scale / seconds(kind, replay=False))
            for mode in ("plain", "curve"):
                found[mode].append(scale / raw_seconds(kind, mode))
        at = {name: statistics.median(each) for name, each in found.items()}
        spread = {name: f"({min(each):.3g} to {max(each):.3g})" for name, each in found.items()}
        show(
            what,
            ">= 50 thousand/s" if kind == "small" else ">= 1 GB/s",
            f"{at['stream']:.3g} {unit} {spread['stream']}; both ends in C {at['in c']:.3g} {spread['in c']}; not kept for replay {at['passing']:.3g} "
            f"{spread['passing']}; raw PUSH/PULL {at['plain']:.3g}, encrypted {at['curve']:.3g}",
        )
    for words, many in ((["put", "samples"], 20_000), (["operate"], 20_000)):
        one, all_ = (statistics.median(of_commands(words, lines) for _ in range(runs)) for lines in (1, many))
        show(
            f"`diel stream {words[0]}`, a process for {many:,} lines",
            "",
            f"{one:.2f} s for one line, {(many - 1) / (all_ - one) / 1e3:.3g} thousand/s for the rest",
        )
    each = [latencies() for _ in range(runs)]
    middle, most, worst = (statistics.median(one) * 1e3 for one in zip(*each, strict=True))
    show(
        f"latency of a stream at {RATE:,} items/s",
        "p99 <= 5 ms",
        f"median {middle:.2f} ms, p99 {most:.2f} ms, greatest {worst:.1f} ms",
    )


if __name__ == "__main__":
    ends: dict[str, Callable[..., None]] = {"put": put, "get": get, "raw_put": raw_put, "raw_get": raw_get}
    ends[sys.argv[1]](*sys.argv[2:])
