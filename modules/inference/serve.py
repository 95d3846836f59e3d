"""A model of `training.mlp` or `training.torch_mlp` that stays loaded and answers over HTTP.

    stages:
      serve:
        module: inference.serve
        inputs: {model: train.model}
        service: {ready: {http: /health}, replicas: 2}

POST /predict   rows in, predictions out: JSON, or an array as its bytes (see `diel.streams.services.client`)
POST /reload    a newer model, which later requests get; none is dropped
GET  /health    without a token: whether it takes requests
GET  /metrics   requests, batches and their times, in Prometheus' text format
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

import numpy as np
import uvicorn
from pydantic import Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

import diel
from diel import tabular

HEADER = "the header `Authorization: Bearer TOKEN`"
RAW = "application/octet-stream"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)


@diel.module(kind="inference")
def serve(
    model: Path | list[Path],
    context: diel.Context,
    max_batch: Annotated[int, Field(ge=1, le=1_000_000)] = 1024,
    max_wait: Annotated[float, Field(ge=0, le=10)] = 0.002,
    max_queue: Annotated[int, Field(ge=1)] = 1_000_000,
) -> None:
    """Serve a model until it is asked to stop.

    model: .npz written by `training.mlp` or `training.torch_mlp`; of several, the mean is the prediction and
        the standard deviation tells how far to trust it
    max_batch: rows that are evaluated in one call; a request with more is a batch of its own
    max_wait: seconds for which a request waits for others to share its batch; while a batch is
        evaluated, the next one fills anyway
    max_queue: rows that may wait; a request beyond them is refused with 503, and asks another replica

    Raise ValueError where a model cannot be read, or where several do not predict the same.
    """
    paths = [model] if isinstance(model, Path) else model
    batcher = Batcher(tabular.Ensemble.load(paths), max_batch, max_wait, max_queue)
    config = uvicorn.Config(
        application(batcher, context.service_token),
        host=context.service_host,
        port=context.service_port,
        log_level="warning",
        access_log=False,
        ws="none",
        timeout_keep_alive=300,
        timeout_graceful_shutdown=5,
    )
    uvicorn.Server(config).run()


class RequestRefused(Exception):
    """A request that cannot be answered, with its code."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


@dataclass
class WaitingRequest:
    """A request's rows, and the answer to them."""

    rows: tabular.Floats
    answer: asyncio.Future[tuple[tabular.Floats, tabular.Floats]]
    since: float
    """Of the event loop's clock, in seconds."""


class Histogram:
    """Counts by size, as Prometheus has them: of all values up to a bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.counts, self.total = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        place = next((n for n, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))
        self.counts[place] += 1
        self.total += value

    def lines(self, name: str, what: str) -> list[str]:
        lines, below = [f"# HELP {name} {what}", f"# TYPE {name} histogram"], 0
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            below += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {below}')
        return [*lines, f"{name}_sum {self.total:.9g}", f"{name}_count {below}"]


class Batcher:
    """Evaluates requests that come together in one call, in a thread of its own.

    While that thread is at a batch, which mostly is inside numpy without Python's lock, the event loop reads
    the next requests.
    """

    def __init__(
        self, model: tabular.Ensemble, max_batch: int = 1024, max_wait: float = 0.002, max_queue: int = 10**6
    ) -> None:
        self.model, self.max_batch, self.max_wait, self.max_queue = model, max_batch, max_wait, max_queue
        self.version = 1
        """Counts the models."""
        self.queued = 0
        """Rows that wait."""
        self.batch_rows = Histogram(ROWS)
        self.batch_seconds = Histogram(SECONDS)
        self._line: deque[WaitingRequest] = deque()
        self._news = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="loader")

    @property
    def features(self) -> tuple[str, ...]:
        return self.model.members[0].features

    async def predict(self, rows: tabular.Floats) -> tuple[tabular.Floats, tabular.Floats]:
        """Return mean and deviation, each of shape (rows,). Raise Refused, 503, where too many rows wait."""
        if self.queued + len(rows) > self.max_queue and self.queued:
            raise RequestRefused(503, f"{self.queued} rows wait already")
        loop = asyncio.get_running_loop()
        waiting = WaitingRequest(rows, loop.create_future(), loop.time())
        self._line.append(waiting)
        self.queued += len(rows)
        self._news.set()
        return await waiting.answer

    async def load(self, paths: Sequence[Path]) -> None:
        """Go on with another model. Raise ValueError and OSError where it cannot be read or reads other
        features; then the one that is there stays."""
        loop = asyncio.get_running_loop()
        newer = await loop.run_in_executor(self._loader, tabular.Ensemble.load, paths)
        if newer.members[0].features != self.features:
            expected, names = ", ".join(self.features), ", ".join(newer.members[0].features)
            raise ValueError(f"the model reads {names}; the one that is served reads {expected}")
        self.model = newer
        self.version += 1

    async def run(self) -> None:
        """Evaluate one batch after the other, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await self._fill(loop)
            batch = self._take()
            rows = np.concatenate([request.rows for request in batch]) if len(batch) > 1 else batch[0].rows
            began = time.perf_counter()
            try:
                mean, deviation = await loop.run_in_executor(self._thread, self.model.predict, rows)
            except Exception as error:
                for request in batch:
                    if not request.answer.done():
                        request.answer.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
                continue
            self.batch_rows.observe(len(rows))
            self.batch_seconds.observe(time.perf_counter() - began)
            start = 0
            for request in batch:
                end = start + len(request.rows)
                if not request.answer.done():  # whoever asked may be gone
                    request.answer.set_result((mean[start:end], deviation[start:end]))
                start = end

    async def _fill(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until a batch is full, or its first request has waited long enough."""
        while True:
            self._news.clear()
            remaining = self._line[0].since + self.max_wait - loop.time() if self._line else None
            if self.queued >= self.max_batch or (remaining is not None and remaining <= 0):
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), remaining)

    def _take(self) -> list[WaitingRequest]:
        batch = [self._line.popleft()]
        count = len(batch[0].rows)
        while self._line and count + len(self._line[0].rows) <= self.max_batch:
            batch.append(self._line.popleft())
            count += len(batch[-1].rows)
        self.queued -= count
        return batch


Handler = Callable[[Request], Awaitable[Response]]


def application(batcher: Batcher, token: str) -> Starlette:
    """Return the ASGI application; every request but /health must show the `token`."""
    requests: dict[tuple[str, int], int] = {}
    seconds = Histogram(SECONDS)

    @asynccontextmanager
    async def batches(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(batcher.run())
        yield
        task.cancel()

    def guarded(path: str, handler: Handler) -> Handler:
        async def handle(request: Request) -> Response:
            began = time.perf_counter()
            try:
                header = request.headers.get("authorization", "").encode()
                if not token or not hmac.compare_digest(header, f"Bearer {token}".encode()):
                    raise RequestRefused(401, f"expected {HEADER} with the token of this run's services")
                response = await handler(request)
            except RequestRefused as refused:
                response = JSONResponse({"error": str(refused)}, refused.code)
            place = path, response.status_code
            requests[place] = requests.get(place, 0) + 1
            seconds.observe(time.perf_counter() - began)
            return response

        return handle

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def metrics(_: Request) -> Response:
        lines = [
            "# HELP diel_requests_total Requests by path and code.",
            "# TYPE diel_requests_total counter",
        ]
        for (path, code), number in sorted(requests.items()):
            lines.append(f'diel_requests_total{{path="{path}",code="{code}"}} {number}')
        lines += seconds.lines("diel_request_seconds", "From a request's headers to its answer.")
        lines += batcher.batch_rows.lines("diel_batch_rows", "Rows evaluated in one call.")
        lines += batcher.batch_seconds.lines("diel_batch_seconds", "Time of one call.")
        lines += ["# HELP diel_queued_rows Rows that wait.", "# TYPE diel_queued_rows gauge"]
        lines += [f"diel_queued_rows {batcher.queued}"]
        lines += ["# HELP diel_model_version How many models it had.", "# TYPE diel_model_version counter"]
        lines += [f"diel_model_version {batcher.version}", ""]
        return PlainTextResponse("\n".join(lines))

    routes = [
        Route("/health", health, methods=["GET"]),
        Route("/predict", guarded("/predict", partial(_predict, batcher)), methods=["POST"]),
        Route("/reload", guarded("/reload", partial(_reload, batcher)), methods=["POST"]),
        Route("/metrics", guarded("/metrics", metrics), methods=["GET"]),
    ]
    return Starlette(routes=routes, lifespan=batches)


async def _predict(batcher: Batcher, request: Request) -> Response:
    raw = request.headers.get("content-type", "").startswith(RAW)
    body = await request.body()
    rows = rows_of_bytes(body, request, batcher.features) if raw else rows_of_json(body, batcher.features)
    try:
        mean, deviation = await batcher.predict(rows)
    except RuntimeError as error:
        raise RequestRefused(500, str(error)) from error
    answer = {"prediction": mean}
    if len(batcher.model.members) > 1:
        answer["deviation"] = deviation
    if not raw:
        lost = np.flatnonzero(~np.isfinite(mean))
        if len(lost):
            raise RequestRefused(
                500, f"the prediction for row {lost[0]} is not finite; look at it and at the model"
            )
        return JSONResponse({name: values.tolist() for name, values in answer.items()})
    content = np.stack([np.asarray(values, np.float64) for values in answer.values()])
    shape = ",".join(map(str, content.shape))
    headers = {"Diel-Dtype": "float64", "Diel-Shape": shape, "Diel-Fields": ",".join(answer)}
    return Response(content.tobytes(), media_type=RAW, headers=headers)


async def _reload(batcher: Batcher, request: Request) -> Response:
    document = _json(await request.body())
    models = document.get("model") if isinstance(document, dict) else None
    listed = [models] if isinstance(models, str) else models
    if not isinstance(listed, list) or not listed or not all(isinstance(path, str) for path in listed):
        raise RequestRefused(400, 'expected {"model": PATH}, or a list of paths')
    try:
        await batcher.load([Path(path) for path in listed])
    except (ValueError, OSError) as error:
        raise RequestRefused(409, str(error)) from error
    return JSONResponse({"models": len(batcher.model.members), "version": batcher.version})


def rows_of_bytes(body: bytes, request: Request, features: Sequence[str]) -> tabular.Floats:
    """Read rows of shape (rows, features) from an array's bytes. Raise Refused, 400."""
    dtype = request.headers.get("diel-dtype", "")
    if dtype not in ("float32", "float64"):
        raise RequestRefused(400, f"Diel-Dtype: expected float32 or float64, found {dtype!r}")
    shape = request.headers.get("diel-shape", "")
    try:
        sizes = tuple(int(size) for size in shape.split(","))
        rows = np.frombuffer(body, dtype).reshape(sizes)
    except (ValueError, OverflowError) as error:
        message = f"Diel-Shape: {shape!r} is not the shape of {len(body)} bytes of {dtype}"
        raise RequestRefused(400, message) from error
    named = request.headers.get("diel-features")
    if named is not None:  # the columns in another order
        names = [unquote(name) for name in named.split(",")]
        if sorted(names) != sorted(features) or rows.ndim != 2 or rows.shape[1] != len(names):
            expected = ", ".join(features)
            raise RequestRefused(
                400, f"Diel-Features: the model reads {expected}; these are {', '.join(names)}"
            )
        rows = rows[:, [names.index(name) for name in features]]
    return checked(rows, features)


def rows_of_json(body: bytes, features: Sequence[str]) -> tabular.Floats:
    """Read `{"rows": …}`: lists in the model's order, mappings, or a mapping of lists. Raise Refused, 400."""
    document = _json(body)
    rows = document.get("rows") if isinstance(document, dict) else None
    try:
        if isinstance(rows, dict):
            return checked(np.array([rows[name] for name in features], float).T, features)
        if isinstance(rows, list) and rows and isinstance(rows[0], dict):
            rows = [[row[name] for name in features] for row in rows]
        if not isinstance(rows, list):
            raise RequestRefused(
                400, 'expected {"rows": [[…], …]}, a list of mappings, or a mapping of lists'
            )
        return checked(np.array(rows, float), features)
    except KeyError as error:
        raise RequestRefused(400, f"a row has no {error}; the model reads {', '.join(features)}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise RequestRefused(400, f"rows: {error}") from error


def checked(rows: tabular.Floats, features: Sequence[str]) -> tabular.Floats:
    """Return the same rows. Raise Refused, 400, where they are no finite rows of the model's features."""
    if rows.ndim != 2 or rows.shape[1] != len(features):
        named = ", ".join(features)
        raise RequestRefused(
            400, f"rows: expected the shape (rows, {len(features)}) ({named}), found {rows.shape}"
        )
    if not np.isfinite(rows).all():
        row = int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise RequestRefused(400, f"rows: row {row} holds what is no finite number")
    return rows


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(400, f"expected JSON: {error}") from error
