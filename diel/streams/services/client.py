"""A client of a service: connections that stay open, over all its replicas.

Requests take turns at the replicas. One that is lost on its way, because a replica died or has no room, goes
to the next; a replica that was restarted elsewhere is found again by its file in the run's directory.
"""

import contextlib
import http.client
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from diel.base.errors import DielError
from diel.base.paths import RunPaths
from diel.base.values import read_json
from diel.streams.services.endpoint import endpoint_file, read_endpoint, read_token

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.floating[Any]]

RAW = "application/octet-stream"
DTYPE, SHAPE, FIELDS, FEATURES = "Diel-Dtype", "Diel-Shape", "Diel-Fields", "Diel-Features"
"""Headers of a body that is an array's bytes in C order: `float32`, `100,3`, names of an answer's rows, names
of a question's columns (as in a URL: a comma in a name is %2C)."""
TIMEOUT = 60.0
"""Seconds to wait for an answer."""
PATIENCE = 60.0
"""Seconds to keep trying a service of which no replica answers."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""Seconds between two rounds over all replicas."""
MOST_IN_VAIN = 32.0
"""After a failed question, the longest pause, as a multiple of the time that it took."""
_LOST = (ConnectionError, TimeoutError, OSError, http.client.HTTPException)

_Request = tuple[str, str, bytes | None, Mapping[str, str]]
Answer = tuple[int, Mapping[str, str], bytes]
"""Code, headers by their names in small letters, body."""


class ServiceError(DielError):
    """A service refused a request, or none of its replicas answered: then its HTTP code `status` is None."""

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class ServiceClient(contextlib.AbstractContextManager["ServiceClient"]):
    """One service, as `context.service("serve")` gives it. Threads may share it."""

    def __init__(
        self,
        name: str,
        replicas: Sequence[Path | str],
        token: str,
        first: int = 0,
        *,
        timeout: float = TIMEOUT,
        patience: float = PATIENCE,
    ) -> None:
        """`replicas` are their files, or plain URLs; `first` is the one that is asked first."""
        self.name = name
        self.timeout = timeout
        self.patience = patience
        self._replicas = [_Replica(replica) for replica in replicas]
        self._token = token
        self._turn = first
        self._lock = threading.Lock()

    def predict(self, rows: Any, path: str = "/predict", *, features: Sequence[str] = ()) -> dict[str, Any]:
        """Return a model's answer for rows: `prediction`, and `deviation` if the model knows it. `rows` is an
        array of shape (rows, features), which travels as its bytes and comes back as arrays of shape (rows,),
        float64; or a list of lists or mappings, or a mapping of lists by feature, which travels as JSON and
        comes back as lists. `features` names an array's columns: without it, they are in the model's order.
        Raise ServiceError."""
        if hasattr(rows, "dtype"):
            return self._predict_array(rows, path, features)
        answer: dict[str, Any] = self.post(path, {"rows": rows})
        return answer

    def get(self, path: str) -> Any:
        """Return what a path answers to GET: JSON as it means, text as text, anything else as bytes."""
        return self._content(f"GET {path}", self._ask(("GET", path, None, {})))

    def post(self, path: str, document: Any = None, *, data: bytes | None = None, **headers: str) -> Any:
        """Return what a path answers to a body: JSON, or bytes as they are (`data`). A request whose
        connection is lost is sent again, and so may be met twice."""
        kind = {"Content-Type": RAW if data is not None else "application/json"}
        body = data if data is not None else json.dumps(document).encode()
        return self._content(f"POST {path}", self._ask(("POST", path, body, {**kind, **headers})))

    def reload(self, model: Path | str | Sequence[Path | str], path: str = "/reload") -> list[Any]:
        """Make every replica use a newer model, without dropping a request. Return their answers."""
        is_single = isinstance(model, str | Path)
        paths = str(model) if is_single else [str(each) for each in model]  # type: ignore[union-attr]
        body = json.dumps({"model": paths}).encode()
        kind = {"Content-Type": "application/json"}
        answers = [self._ask(("POST", path, body, kind), replica) for replica in self._replicas]
        return [self._content(f"POST {path}", answer) for answer in answers]

    def close(self) -> None:
        for replica in self._replicas:
            replica.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _predict_array(self, rows: "Array", path: str, features: Sequence[str]) -> dict[str, Any]:
        numpy = sys.modules["numpy"]  # whoever has an array has loaded it
        array = numpy.ascontiguousarray(rows)
        if array.dtype.name not in ("float32", "float64"):
            array = array.astype("float64")
        shape = ",".join(map(str, array.shape))
        headers = {"Content-Type": RAW, DTYPE: array.dtype.name, SHAPE: shape}
        if features:
            headers[FEATURES] = ",".join(quote(name, safe="") for name in features)
        status, answered, body = self._ask(("POST", path, array.tobytes(), headers))
        fields = answered.get(FIELDS.lower(), "prediction").split(",")
        try:
            columns = numpy.frombuffer(body, dtype=answered.get(DTYPE.lower(), "float64"))
            return dict(zip(fields, columns.reshape(len(fields), -1), strict=True))
        except (TypeError, ValueError) as error:
            kind = answered.get("content-type", "no Content-Type")
            message = f"service '{self.name}': POST {path}: expected an array's bytes, found {kind} ({error})"
            raise ServiceError(message, status) from error

    def _ask(self, request: _Request, only: "_Replica | None" = None) -> Answer:
        """Return the answer of the first replica that gives one. Raise ServiceError."""
        method, path, body, headers = request
        request = method, path, body, {**headers, "Authorization": f"Bearer {self._token}"}
        end = time.monotonic() + self.patience
        pause, why = FIRST_PAUSE, "it has no replica"
        while True:
            for replica in [only] if only is not None else self._in_turn():
                try:
                    answer = replica.ask(request, self.timeout)
                except _LOST as error:
                    why = f"{replica.where}: {str(error) or type(error).__name__}"
                    continue
                if answer[0] == http.client.SERVICE_UNAVAILABLE:
                    why = f"{replica.where} is busy: {_said(answer)}"
                    continue
                if answer[0] >= 400:
                    raise ServiceError(f"service '{self.name}': {method} {path}: {_said(answer)}", answer[0])
                return answer
            if time.monotonic() + pause > end:
                raise ServiceError(f"service '{self.name}' does not answer: {why}")
            time.sleep(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)

    def _content(self, what: str, answer: Answer) -> Any:
        """Return the content of an answer. Raise ServiceError if it claims to be JSON but is not."""
        status, headers, body = answer
        kind = headers.get("content-type", "")
        if "json" not in kind:
            return body.decode("utf-8", "replace") if kind.startswith("text/") else body
        try:
            return read_json(body)
        except (ValueError, RecursionError) as error:
            raise ServiceError(f"service '{self.name}': {what}: no JSON ({error})", status) from error

    def _in_turn(self) -> "Iterator[_Replica]":
        with self._lock:
            first = self._turn
            self._turn += 1
        count = len(self._replicas)
        return (self._replicas[(first + place) % count] for place in range(count))


def connect(run_dir: Path, name: str, replicas: Sequence[int], first: int = 0) -> ServiceClient:
    """Return a client of a run's service, by its replicas' task indices. Raise OSError without a token."""
    paths = RunPaths(run_dir)
    files = [endpoint_file(paths, name, replica) for replica in replicas]
    return ServiceClient(name, files, read_token(paths), first)


@dataclass
class WaryClient:
    """Asks a service less and less often while it does not answer. For one thread only."""

    _client: ServiceClient
    _replicas: int
    _silent: str = ""
    """Why there was no answer to the last question; empty if there was one."""
    _pause: float = 1.0
    """The pause before the next question, as a multiple of the time of the failed one."""
    _again: float = 0.0

    def predict(self, rows: Sequence[Any], timeout: float) -> Any:
        """Ask it. Raise ServiceError if it refuses the question, or does not answer."""
        began = time.monotonic()
        if self._silent and began < self._again:
            raise ServiceError(self._silent)
        self._client.timeout = timeout / self._replicas  # one of them may hang
        self._client.patience = 0.0 if self._silent else timeout
        try:
            answer = self._client.predict(rows)
        except ServiceError as error:
            self._note(str(error) if error.status is None else "", began)
            raise
        self._note("", began)
        return answer

    def _note(self, silent: str, began: float) -> None:
        """Note the outcome of a question: nothing, or why there was no answer."""
        now = time.monotonic()
        self._silent, self._again = silent, now + self._pause * (now - began)
        self._pause = min(MOST_IN_VAIN, 2 * self._pause) if silent else 1.0


@lru_cache(maxsize=64)
def wary_client(run_dir: Path, name: str, replicas: tuple[int, ...]) -> WaryClient:
    """Raise OSError without a token."""
    return WaryClient(connect(run_dir, name, replicas), len(replicas))


def in_url(path: str) -> str:
    """Return a path as written in a request: spaces and other characters as %20; existing escapes stay."""
    return quote(path, safe="%/:?#[]@!$&'()*+,;=~")


class _Replica:
    """One replica: where it is, and the connections to it that are not in use."""

    def __init__(self, place: Path | str) -> None:
        self._file = place if isinstance(place, Path) else None
        self._url = place if isinstance(place, str) else ""
        self._free: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    @property
    def where(self) -> str:
        return self._url or "a replica"

    def ask(self, request: _Request, timeout: float) -> Answer:
        """Send a request. Raise OSError or HTTPException if it or its answer is lost."""
        with self._lock:
            idle = self._free.pop() if self._url and self._free else None
        if idle is not None and idle.sock is not None:
            try:
                return self._exchange(idle, request)
            except TimeoutError:
                raise
            except _LOST:
                self.close()  # it closed an idle connection, or died: a fresh connection shows which
        self._find()
        place = urlsplit(self._url)
        fresh = http.client.HTTPConnection(place.hostname or "", place.port, timeout=timeout)
        return self._exchange(fresh, request)

    def _exchange(self, connection: http.client.HTTPConnection, request: _Request) -> Answer:
        method, path, body, headers = request
        try:
            connection.request(method, in_url(path), body, dict(headers))
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._free.append(connection)
        return response.status, {name.lower(): value for name, value in response.getheaders()}, content

    def _find(self) -> None:
        """Read where the replica is now. Raise ConnectionError while it is not ready."""
        if self._file is None:
            return
        endpoint = read_endpoint(self._file)
        if endpoint is None or not endpoint.is_ready:
            self.close()
            state = "has not begun" if endpoint is None else f"is {endpoint.state}"
            raise ConnectionError(f"it {state}")
        if endpoint.url != self._url:
            self.close()
            self._url = endpoint.url

    def close(self) -> None:
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.close()


def _said(answer: Answer) -> str:
    code, _, body = answer
    text = body.decode("utf-8", "replace").strip()
    with contextlib.suppress(ValueError):
        document = json.loads(text)
        text = str(document["error"]) if isinstance(document, dict) and "error" in document else text
    return f"{code} {text[:300]}".strip()
