"""The service of a model: what it answers over HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import uvicorn
from starlette.routing import Route

from diel import tabular
from diel.streams.services.client import ServiceClient, ServiceError
from modules.inference.serve import Batcher, RequestRefused, application

FEATURES = ("t", "rho")


def save_model(path: Path, slope: float, features: tuple[str, ...] = FEATURES) -> Path:
    """A model without a hidden layer: `slope` times the sum of its features."""
    wide = len(features)
    scale = tabular.Scale(numpy.zeros(wide), numpy.ones(wide), 0.0, 1.0)
    layer = numpy.full((wide, 1), slope, numpy.float32), numpy.zeros(1, numpy.float32)
    return tabular.Model(features, "u", "relu", scale, (layer,)).save(path)


class Served:
    """The application at a port of its own."""

    def __init__(self, *models: Path, **more: Any) -> None:
        self.batcher = Batcher(tabular.Ensemble.load(models), **more)
        app = application(self.batcher, "secret")
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        while not self.server.started:
            self.thread.join(0.005)
            assert self.thread.is_alive()
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.clients: list[ServiceClient] = []

    def client(self, token: str = "secret") -> ServiceClient:
        self.clients.append(ServiceClient("serve", [self.url], token, patience=1.0))
        return self.clients[-1]

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.server.should_exit = True
        self.thread.join()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    served = Served(save_model(tmp_path / "one.npz", 1.0))
    yield served
    served.close()


ROWS = [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    "rows", [ROWS, [{"rho": 2, "t": 1}, {"t": 3, "rho": 4, "other": 9}], {"t": [1, 3], "rho": [2, 4]}]
)
def test_rows_come_as_lists_mappings_or_columns(server: Served, rows: Any) -> None:
    assert server.client().predict(rows) == {"prediction": [3.0, 7.0]}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_are_answered_by_arrays(server: Served, dtype: str) -> None:
    answer = server.client().predict(numpy.array(ROWS, dtype))
    assert list(answer) == ["prediction"]
    assert answer["prediction"].tolist() == [3.0, 7.0]


def test_columns_of_an_array_that_are_named_may_come_in_any_order(tmp_path: Path) -> None:
    features = ("t", "rho, ρ")
    scale = tabular.Scale(numpy.zeros(2), numpy.ones(2), 0.0, 1.0)
    layer = numpy.array([[1.0], [10.0]], numpy.float32), numpy.zeros(1, numpy.float32)
    served = Served(tabular.Model(features, "u", "relu", scale, (layer,)).save(tmp_path / "one.npz"))
    rows = numpy.array([[1.0, 2.0]])
    try:
        client = served.client()
        assert client.predict(rows)["prediction"].tolist() == [21.0]
        assert client.predict(rows, features=features)["prediction"].tolist() == [21.0]
        assert client.predict(rows, features=features[::-1])["prediction"].tolist() == [12.0]
        for other in (["t", "x"], ["t"], ["t", "t"]):
            with pytest.raises(ServiceError, match="400 Diel-Features: the model reads t, rho, ρ"):
                client.predict(rows, features=other)
    finally:
        served.close()


def test_an_ensemble_says_how_far_to_trust_it(tmp_path: Path) -> None:
    served = Served(save_model(tmp_path / "a.npz", 1.0), save_model(tmp_path / "b.npz", 3.0))
    try:
        assert served.client().predict(ROWS) == {"prediction": [6.0, 14.0], "deviation": [3.0, 7.0]}
        answer = served.client().predict(numpy.array(ROWS))
        assert [answer["prediction"].tolist(), answer["deviation"].tolist()] == [[6.0, 14.0], [3.0, 7.0]]
    finally:
        served.close()


@pytest.mark.parametrize("path", ["/predict", "/reload", "/metrics"])
@pytest.mark.parametrize("token", ["", "other", "secretx"])
def test_without_the_token_nothing_but_health_is_answered(server: Served, path: str, token: str) -> None:
    client = server.client(token)
    with pytest.raises(ServiceError, match="401 expected the header `Authorization: Bearer TOKEN`"):
        client.get(path) if path == "/metrics" else client.post(path, {"rows": ROWS})
    assert client.get("/health") == "ok\n"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"rows": [[1.0]]}, r"400 rows: expected the shape \(rows, 2\) \(t, rho\), found \(1, 1\)"),
        ({"rows": [[1.0, "x"]]}, "400 rows: could not convert"),
        ({"rows": [{"t": 1}]}, "400 a row has no 'rho'; the model reads t, rho"),
        ({"rows": 3}, "400 expected"),
        ({"rows": [[10**400, 1]]}, "400 rows: int too large"),
        ([], "400 expected"),
    ],
)
def test_rows_that_are_none_are_refused_in_words(server: Served, document: Any, message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        server.client().post("/predict", document)


@pytest.mark.parametrize(
    ("data", "headers", "message"),
    [
        (b"[" * 100_000, {"Content-Type": "application/json"}, "400 expected JSON"),
        (b"\0" * 16, {"Diel-Dtype": "float64", "Diel-Shape": f"{10**30},2"}, "400 Diel-Shape"),
        (b"\0" * 15, {"Diel-Dtype": "float64", "Diel-Shape": "1,2"}, "400 Diel-Shape"),
        (b"\0" * 16, {"Diel-Dtype": "object", "Diel-Shape": "1,2"}, "400 Diel-Dtype"),
    ],
)
def test_bodies_that_are_none_are_refused_in_words(
    server: Served, data: bytes, headers: dict[str, str], message: str
) -> None:
    with pytest.raises(ServiceError, match=message):
        server.client().post("/predict", data=data, **headers)
    assert server.client().predict(ROWS) == {"prediction": [3.0, 7.0]}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_prediction_that_is_none_is_told_with_its_row(tmp_path: Path) -> None:
    served = Served(save_model(tmp_path / "steep.npz", 1e30))
    try:
        with pytest.raises(ServiceError, match="500 the prediction for row 1 is not finite"):
            served.client().predict([[1.0, 1.0], [1e30, 1.0]])
    finally:
        served.close()


def test_without_a_token_of_its_own_it_answers_nobody(tmp_path: Path) -> None:
    batcher = Batcher(tabular.Ensemble.load([save_model(tmp_path / "one.npz", 1.0)]))
    routes = {route.path: route for route in application(batcher, "").routes if isinstance(route, Route)}
    answers: list[Any] = []

    async def ask() -> None:
        async def nothing() -> dict[str, Any]:
            return {"type": "http.request", "body": b"{}"}

        async def keep(message: Any) -> None:
            answers.append(message)

        headers = [(b"authorization", b"Bearer ")]
        scope = {"type": "http", "method": "POST", "path": "/predict", "headers": headers}
        await routes["/predict"].handle(scope, nothing, keep)

    asyncio.run(ask())
    assert answers[0]["status"] == 401


def test_numbers_that_are_none_are_refused_with_their_row(server: Served) -> None:
    with pytest.raises(ServiceError, match="400 rows: row 1 holds what is no finite number"):
        server.client().predict(numpy.array([[1, 2], [numpy.nan, 4]]))


def metric(client: ServiceClient, name: str) -> float:
    (line,) = [line for line in client.get("/metrics").splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


def test_requests_that_come_together_are_evaluated_in_one_call(tmp_path: Path) -> None:
    served = Served(save_model(tmp_path / "one.npz", 1.0), max_batch=8, max_wait=10.0)
    try:
        client, answers = served.client(), {}

        def ask(number: int) -> None:
            answers[number] = client.predict([[float(number), 0.0]])["prediction"]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == {number: [float(number)] for number in range(16)}
        assert metric(client, "diel_batch_rows_count") == 2
        assert metric(client, "diel_batch_rows_sum") == 16
        assert 'diel_requests_total{path="/predict",code="200"} 16' in client.get("/metrics")
    finally:
        served.close()


def test_a_newer_model_takes_over_without_a_lost_request(server: Served, tmp_path: Path) -> None:
    newer = save_model(tmp_path / "newer.npz", 10.0)
    asker, other = server.client(), server.client()
    predictions: list[float] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            predictions.append(asker.predict([[1.0, 0.0]])["prediction"][0])

    thread = threading.Thread(target=ask)
    thread.start()
    while len(predictions) < 20:
        thread.join(0.001)
    assert other.reload(newer) == [{"models": 1, "version": 2}]
    count = len(predictions)
    while len(predictions) < count + 20:
        thread.join(0.001)
    done.set()
    thread.join()
    assert predictions == sorted(predictions)
    assert set(predictions) == {1.0, 10.0}


def test_a_model_that_does_not_fit_is_refused_and_the_old_one_goes_on(server: Served, tmp_path: Path) -> None:
    client = server.client()
    with pytest.raises(ServiceError, match="409 the model reads t; the one that is served reads t, rho"):
        client.reload(save_model(tmp_path / "other.npz", 1.0, ("t",)))
    (tmp_path / "none.npz").write_bytes(b"no model")
    with pytest.raises(ServiceError, match="409 none.npz is not a model"):
        client.reload(tmp_path / "none.npz")
    broken = save_model(tmp_path / "broken.npz", 1.0)
    with numpy.load(broken) as file:
        numpy.savez(broken, **{**file, "weight_0": numpy.zeros((3, 1))})
    with pytest.raises(ServiceError, match="409 broken.npz is not a model .*layer 0 has weights of shape"):
        client.reload(broken)
    with pytest.raises(ServiceError, match="400 expected"):
        client.post("/reload", {"path": "x"})
    assert client.predict(ROWS) == {"prediction": [3.0, 7.0]}


def test_more_rows_than_may_wait_are_sent_elsewhere(tmp_path: Path) -> None:
    ensemble = tabular.Ensemble.load([save_model(tmp_path / "one.npz", 1.0)])

    async def ask() -> str:
        batcher = Batcher(ensemble, max_queue=2)
        waiting = asyncio.create_task(batcher.predict(numpy.array(ROWS)))
        await asyncio.sleep(0)
        try:
            await batcher.predict(numpy.array(ROWS))
        except RequestRefused as busy:
            return str(busy)
        finally:
            waiting.cancel()
        return ""

    assert asyncio.run(ask()) == "2 rows wait already"


def test_an_error_of_the_model_fails_its_requests_and_no_others(server: Served) -> None:
    client = server.client()
    good = server.batcher.model

    class Bad(tabular.Ensemble):
        def predict(self, rows: Any, batch: int | None = None) -> Any:
            raise FloatingPointError("overflow")

    server.batcher.model = Bad(good.members)
    with pytest.raises(ServiceError, match="500 FloatingPointError: overflow"):
        client.predict(ROWS)
    server.batcher.model = good
    assert client.predict(ROWS) == {"prediction": [3.0, 7.0]}


def test_metrics_are_in_the_text_format_of_prometheus(server: Served) -> None:
    client = server.client()
    client.predict(ROWS)
    lines = client.get("/metrics").splitlines()
    assert 'diel_batch_rows_bucket{le="2"} 1' in lines
    assert 'diel_batch_rows_bucket{le="+Inf"} 1' in lines
    for line in lines:
        assert line.startswith("#") or float(line.rpartition(" ")[2]) >= 0
    json.dumps(lines)
