"""The client of a service: connections that stay open, turns at the replicas, replicas that are lost and found."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from diel.streams.services.client import ServiceClient, ServiceError
from diel.streams.services.endpoint import Endpoint, write_endpoint

Answer = Callable[[str, bytes, Any], tuple[int, str, bytes]]


class Replica:
    """A replica that a test makes: it counts its requests and connections."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.requests = 0
        self.connections = 0
        replica = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                replica.connections += 1

            def handle_any(self) -> None:
                replica.requests += 1
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                code, kind, said = (answer or plain)(self.path, body, self.headers)
                if code == 0:  # dies in the middle
                    self.close_connection = True
                    return
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(said)))
                for name in ("Diel-Dtype", "Diel-Shape"):
                    if name in self.headers:
                        self.send_header(name, self.headers[name])
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = handle_any

            def log_message(self, *_: object) -> None:
                """Nothing."""

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def plain(path: str, body: bytes, headers: Any) -> tuple[int, str, bytes]:
    document = {"path": path, "token": headers.get("Authorization"), "body": body.decode("latin-1")}
    return 200, "application/json", json.dumps(document).encode()


@pytest.fixture
def replicas() -> Iterator[Callable[..., Replica]]:
    made: list[Replica] = []

    def make(answer: Answer | None = None) -> Replica:
        made.append(Replica(answer))
        return made[-1]

    yield make
    for replica in made:
        replica.close()


def client(*places: Path | str, **more: Any) -> ServiceClient:
    return ServiceClient("serve", places, "secret", **{"patience": 60.0, **more})


def refuse(path: str, body: bytes, headers: Any) -> tuple[int, str, bytes]:
    return 503, "text/plain", b"no room"


def die(path: str, body: bytes, headers: Any) -> tuple[int, str, bytes]:
    return 0, "", b""


def test_a_request_shows_the_token_and_gets_json(replicas: Callable[..., Replica]) -> None:
    with client(replicas().url) as service:
        assert service.get("/x")["token"] == "Bearer secret"
        assert json.loads(service.post("/y", {"a": 1})["body"]) == {"a": 1}


def test_a_path_may_have_any_letters(replicas: Callable[..., Replica]) -> None:
    with client(replicas().url) as service:
        assert service.get("/héalth a\n%20?x=1&y=[2]")["path"] == "/h%C3%A9alth%20a%0A%20?x=1&y=[2]"


def test_many_requests_go_over_one_connection(replicas: Callable[..., Replica]) -> None:
    replica = replicas()
    with client(replica.url) as service:
        for _ in range(20):
            service.get("/")
    assert (replica.requests, replica.connections) == (20, 1)


def test_replicas_take_turns_and_the_first_is_as_asked(replicas: Callable[..., Replica]) -> None:
    made = [replicas() for _ in range(3)]
    with client(*(replica.url for replica in made), first=2) as service:
        service.get("/")
        assert [replica.requests for replica in made] == [0, 0, 1]
        for _ in range(8):
            service.get("/")
    assert [replica.requests for replica in made] == [3, 3, 3]


@pytest.mark.parametrize("trouble", [refuse, die])
def test_what_a_replica_does_not_answer_the_next_one_does(
    replicas: Callable[..., Replica], trouble: Answer
) -> None:
    bad, good = replicas(trouble), replicas()
    with client(bad.url, good.url) as service:
        assert [service.get("/")["path"] for _ in range(4)] == ["/"] * 4
    assert good.requests == 4
    assert bad.requests >= 2


def test_a_request_whose_answer_is_lost_is_sent_again_and_so_may_be_met_twice(
    replicas: Callable[..., Replica],
) -> None:
    met: list[bytes] = []

    def once(path: str, body: bytes, headers: Any) -> tuple[int, str, bytes]:
        met.append(body)
        return (0, "", b"") if len(met) == 1 else plain(path, body, headers)

    with client(replicas(once).url) as service:
        service.post("/count", {"a": 1})
    assert met == [b'{"a": 1}'] * 2


@pytest.mark.parametrize("said", [b"oops", b"[" * 100_000, b"\xff"])
def test_an_answer_that_is_no_json_is_told(replicas: Callable[..., Replica], said: bytes) -> None:
    replica = replicas(lambda *_: (200, "application/json", said))
    with client(replica.url) as service, pytest.raises(ServiceError, match="POST /x: no JSON") as caught:
        service.post("/x", {})
    assert caught.value.status == 200


def test_an_answer_that_is_no_array_is_told(replicas: Callable[..., Replica]) -> None:
    with (
        client(replicas().url) as service,
        pytest.raises(ServiceError, match="expected an array's bytes, found application/json"),
    ):
        service.predict(numpy.zeros((1, 2)))


def test_a_replica_that_came_back_elsewhere_is_found_by_its_file(
    replicas: Callable[..., Replica], tmp_path: Path
) -> None:
    file = tmp_path / "0.json"
    first = replicas(lambda path, *rest: die(path, *rest) if path == "/again" else plain(path, *rest))
    write_endpoint(file, Endpoint("ready", first.url, 1))
    with client(file) as service:
        service.get("/")
        second = replicas()
        write_endpoint(file, Endpoint("restarting", second.url, 1, restarts=1))
        threading.Timer(0.2, write_endpoint, (file, Endpoint("ready", second.url, 1, restarts=1))).start()
        assert service.get("/again")["path"] == "/again"
        assert second.requests == 1


def test_a_refusal_is_told_with_its_code_and_not_tried_elsewhere(replicas: Callable[..., Replica]) -> None:
    def no(path: str, body: bytes, headers: Any) -> tuple[int, str, bytes]:
        return 401, "application/json", b'{"error": "no token"}'

    made = [replicas(no), replicas()]
    with (
        client(*(replica.url for replica in made)) as service,
        pytest.raises(ServiceError, match="service 'serve': GET /x: 401 no token") as caught,
    ):
        service.get("/x")
    assert caught.value.status == 401
    assert made[1].requests == 0


def test_a_service_that_nobody_runs_is_given_up_after_a_while(tmp_path: Path) -> None:
    began = time.monotonic()
    with (
        client(tmp_path / "0.json", patience=0.2) as service,
        pytest.raises(ServiceError, match="does not answer: .*it has not begun") as caught,
    ):
        service.get("/")
    assert caught.value.status is None
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("given", "sent"), [("float32", "float32"), ("float64", "float64"), ("int64", "float64")]
)
def test_arrays_travel_as_their_bytes(replicas: Callable[..., Replica], given: str, sent: str) -> None:
    def twice(path: str, body: bytes, headers: Any) -> tuple[int, str, bytes]:
        rows = numpy.frombuffer(body, headers["Diel-Dtype"]).reshape(-1, 2)
        assert headers["Diel-Dtype"] == sent
        assert headers["Diel-Shape"] == "3,2"
        return 200, "application/octet-stream", (2 * rows[:, 0]).tobytes()

    with client(replicas(twice).url) as service:
        rows = numpy.arange(6, dtype=given).reshape(3, 2)
        assert service.predict(rows)["prediction"].tolist() == [0, 4, 8]
        assert service.predict(numpy.asfortranarray(rows))["prediction"].tolist() == [0, 4, 8]


def test_threads_may_share_a_client(replicas: Callable[..., Replica]) -> None:
    made = [replicas(), replicas()]
    with client(*(replica.url for replica in made)) as service:
        threads = [threading.Thread(target=lambda: [service.get("/") for _ in range(25)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [replica.requests for replica in made] == [100, 100]
