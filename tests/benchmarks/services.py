"""A service beside a bare loop over its model, under 32 clients; the load of two replicas; what is refused."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy

from diel import tabular
from diel.streams.services.client import ServiceClient, ServiceError

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = 32
ROWS = 64
"""Of a request."""
FEATURES, WIDTH, LAYERS = 8, 1024, 3
BATCH = CLIENTS // 2 * ROWS
"""Rows of a call: while one half of the clients is answered, the other half's rows are evaluated."""
SECONDS = 4.0
Show = Callable[[str, str, str], None]
TOKEN = "a-token-for-the-benchmark"

SERVE = """
import sys
from pathlib import Path
import diel
from modules.inference.serve import serve
serve([Path(sys.argv[1])], diel.Context(task_dir=Path(sys.argv[2])), max_batch=int(sys.argv[3]))
"""
LOOP = """
import sys, time
from pathlib import Path
import numpy
from diel import tabular
model = tabular.Ensemble.load([Path(sys.argv[1])])
rows = numpy.random.default_rng(0).normal(size=(int(sys.argv[3]), len(model.members[0].features)))
model.predict(rows)
began, calls = time.perf_counter(), 0
while time.perf_counter() - began < float(sys.argv[4]):
    model.predict(rows)
    calls += 1
print(calls * len(rows) / (time.perf_counter() - began))
"""


def services(runs: int, show: Show) -> None:
    """Prints throughput, the load of replicas, the latency of one small request, and the refusal."""
    with tempfile.TemporaryDirectory(prefix="diel-benchmark-") as name:
        folder = Path(name)
        model = _model(folder / "large.npz", WIDTH, LAYERS)
        ratios, bare, served = [], [], []
        with _replica(folder, model, BATCH) as url:
            _ask_all([url], 1.0)
            for _ in range(runs):
                bare.append(_bare(folder, model))
                served.append(_ask_all([url], SECONDS))
                ratios.append(served[-1] / bare[-1])
        batch_ms = 1000 * BATCH / statistics.median(bare)
        show(
            "bare loop, rows/s",
            "",
            f"{statistics.median(bare):.0f} ({batch_ms:.0f} ms a batch of {BATCH} rows)",
        )
        show("service under 32 clients, rows/s", "", f"{statistics.median(served):.0f}")
        show(
            "service / bare loop",
            ">= 0.90",
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        )
        small = _model(folder / "small.npz", 16, 1)
        with _replica(folder, small, BATCH) as one, _replica(folder, small, BATCH) as other:
            _ask_all([one, other], SECONDS)
            load = [_count(url) for url in (one, other)]
            show(
                "load of two replicas, larger / smaller",
                "<= 1.20",
                f"{max(load) / min(load):.3f} ({load[0]}, {load[1]})",
            )
            show("one row, one client", "", f"{1000 * _latency(one):.2f} ms (median), of which max_wait is 2")
            try:
                ServiceClient("serve", [one], "another").predict([[0.0] * FEATURES])
                refused = "answered"
            except ServiceError as error:
                refused = str(error.status)
            show("a request without the token", "401", refused)


def _model(path: Path, width: int, layers: int) -> Path:
    rng = numpy.random.default_rng(1)
    wide = [FEATURES, *[width] * layers, 1]
    weights = tuple(
        (rng.normal(size=(a, b)).astype(numpy.float32) / a**0.5, numpy.zeros(b, numpy.float32))
        for a, b in pairwise(wide)
    )
    scale = tabular.Scale(numpy.zeros(FEATURES), numpy.ones(FEATURES), 0.0, 1.0)
    return tabular.Model(tuple(f"x{n}" for n in range(FEATURES)), "y", "relu", scale, weights).save(path)


def _environment(**more: str) -> dict[str, str]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": str(ROOT), **more}


def _bare(folder: Path, model: Path) -> float:
    words = [sys.executable, "-c", LOOP, str(model), str(folder), str(BATCH), str(SECONDS)]
    done = subprocess.run(words, env=_environment(), capture_output=True, text=True, check=True)
    return float(done.stdout)


@contextmanager
def _replica(folder: Path, model: Path, batch: int) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = _environment(DIEL_SERVICE_PORT=str(port), DIEL_SERVICE_TOKEN=TOKEN, DIEL_SERVICE_HOST="127.0.0.1")
    words = [sys.executable, "-c", SERVE, str(model), str(folder), str(batch)]
    process = subprocess.Popen(words, env=env)
    url = f"http://127.0.0.1:{port}"
    try:
        ServiceClient("serve", [url], TOKEN).get("/health")  # tried until it answers
        yield url
    finally:
        process.terminate()
        process.wait()


def _ask_all(urls: list[str], seconds: float) -> float:
    """Rows a second that all clients together get, each with one request at a time."""
    rows = numpy.random.default_rng(2).normal(size=(ROWS, FEATURES))
    counts = [0] * CLIENTS
    start = threading.Barrier(CLIENTS + 1)
    end = [0.0]

    def ask(number: int) -> None:
        with ServiceClient("serve", urls, TOKEN, first=number) as client:
            client.predict(rows)
            start.wait()
            while time.perf_counter() < end[0]:
                client.predict(rows)
                counts[number] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    began = time.perf_counter()
    end[0] = began + seconds + 3600
    start.wait()
    began = time.perf_counter()
    end[0] = began + seconds
    for thread in threads:
        thread.join()
    return sum(counts) * ROWS / (time.perf_counter() - began)


def _count(url: str) -> int:
    text: str = ServiceClient("serve", [url], TOKEN).get("/metrics")
    line = next(line for line in text.splitlines() if line.startswith('diel_requests_total{path="/predict"'))
    return int(line.rpartition(" ")[2])


def _latency(url: str) -> float:
    with ServiceClient("serve", [url], TOKEN) as client:
        times = []
        for _ in range(300):
            began = time.perf_counter()
            client.predict(numpy.zeros((1, FEATURES)))
            times.append(time.perf_counter() - began)
    return statistics.median(times[50:])
