"""What a worker makes of a surrogate's answer: a service in this process, and one question to it."""

from __future__ import annotations

import http.server
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from diel.base.paths import RunPaths
from diel.streams.services.endpoint import Endpoint, endpoint_file, make_token, write_endpoint
from diel.worker.attempt.bundle import Question, Request, Work
from diel.worker.attempt.surrogate import Consultation, ask
from diel.workflow.models import Output, Surrogate
from tests.record import as_record
from tests.throwaway import wait_for

WORK: dict[str, Any] = {
    "stage": "s", "module": None, "values": {}, "timeout": None, "launcher": (), "threads": 1,
}  # fmt: skip
Asking = Callable[..., Consultation]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what the test put into its server, and keeps what it was asked."""

    def do_POST(self) -> None:
        self.server.hangs.wait()  # type: ignore[attr-defined]
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))  # type: ignore[attr-defined]
        body = self.server.answer  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    made: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.asked, made.hangs = [], threading.Event()
    made.hangs.set()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.hangs.set()
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def asking(server: Any, tmp_path: Path) -> Asking:
    """Asks about {x: 1.5} with an answer of the service, and what else the stage says."""
    paths = RunPaths(tmp_path / "w-1")
    make_token(paths)
    url = f"http://127.0.0.1:{server.server_port}"
    write_endpoint(endpoint_file(paths, "serve", 0), Endpoint("ready", url, 1))

    def given(
        answer: Any, tolerance: float = 0.1, *, promises: Any = None, audited: bool = False, **more: Any
    ) -> Consultation:
        server.answer = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        told = {"service": "serve", "tolerance": tolerance, "outputs": ("y",), "timeout": "1s", **more}
        work = Work(**WORK, surrogate=Surrogate(**told), promises=promises or {})
        question = Question({"x": 1.5}, (0,), "k", ("p", "i"), audited)
        return ask(paths, work, Request(0, 1, "key", ("a", "b"), {}, {}, None, {}, {}, question=question))

    return given


def answer(value: Any, deviation: Any = None) -> dict[str, Any]:
    return {"prediction": [value]} | ({} if deviation is None else {"deviation": [deviation]})


def test_the_tasks_parameters_are_asked_about(asking: Asking, server: Any) -> None:
    asking(answer(2.0, 0.0))
    assert server.asked == [{"rows": [{"x": 1.5}]}]


@pytest.mark.parametrize(("deviation", "used"), [(0.0, True), (0.1, True), (0.1000001, False)])
def test_an_answer_is_used_up_to_the_tolerance(asking: Asking, deviation: float, used: bool) -> None:
    asked = asking(answer(2.0, deviation))
    assert (asked.values, asked.uncertainty) == ({"y": 2.0} if used else None, deviation)
    assert not asked.message


@pytest.mark.parametrize(
    ("value", "deviation", "uncertainty", "used"),
    [(-20.0, 1.0, 0.05, True), (2.0, 1.0, 0.5, False), (0.0, 0.0, 0.0, True), (0.0, 0.01, None, False)],
)
def test_a_relative_tolerance_is_a_fraction_of_the_value(
    asking: Asking, value: float, deviation: float, uncertainty: float | None, used: bool
) -> None:
    asked = asking(answer(value, deviation), relative=True)
    assert (asked.values is not None, asked.uncertainty) == (used, uncertainty)


def test_of_several_outputs_the_most_unsure_counts(asking: Asking) -> None:
    both = answer({"y": 2.0, "z": 3.0}, {"y": 0.01, "z": 0.2})
    assert asking(both, outputs=("y", "z")).values is None
    assert asking(both, tolerance=0.2, outputs=("y", "z")).values == {"y": 2.0, "z": 3.0}
    assert asking(both).values == {"y": 2.0}


@pytest.mark.parametrize(
    "extra",
    [
        {"prediction": [2.0, 99.0], "deviation": [0.0]},
        {"prediction": [2.0], "deviation": [0.0, 9.0]},
        {"prediction": [], "deviation": []},
        {"prediction": {"0": 2.0}, "deviation": [0.0]},
    ],
)
def test_an_answer_for_another_number_of_rows_is_none(asking: Asking, extra: dict[str, Any]) -> None:
    asked = asking(extra)
    assert asked.values is None
    assert "of one row is" in asked.message


def test_without_an_uncertainty_only_an_endless_tolerance_will_do(asking: Asking) -> None:
    asked = asking(answer(2.0))
    assert asked.values is None
    assert "gives no uncertainty: give it several models" in asked.message
    assert asking(answer(2.0), tolerance=math.inf).values == {"y": 2.0}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("nonsense", "found something else"),
        ({"prediction": []}, "found something else (TypeError"),
        ({"prediction": [{"z": 1.0}]}, "found something else (KeyError"),
        ({"prediction": [None]}, "found something else (TypeError"),
        ({"prediction": ["1.5"], "deviation": [0.0]}, "for y it is not a number, but of type str"),
        ({"prediction": [True], "deviation": [0.0]}, "for y it is not a number, but of type bool"),
        ({"prediction": [1.5], "deviation": ["0"]}, "for y it is not a number, but of type str"),
        ({"prediction": [1.5], "deviation": [-0.1]}, "the service gives an uncertainty of -0.1 for y"),
        ({"prediction": [10**400], "deviation": [0.0]}, "the service answers inf for y"),
        ([1.5], "found something else (AttributeError"),
        ("[" * 100_000, "no JSON"),
        ('{"prediction": [NaN], "deviation": [0.0]}', "the service answers nan for y"),
        ('{"prediction": [1.0], "deviation": [Infinity]}', "the service answers inf for y"),
    ],
)
def test_what_is_no_answer_is_simulated_with_the_reason(asking: Asking, said: Any, message: str) -> None:
    asked = asking(json.dumps(said) if said == "nonsense" else said, tolerance=math.inf)
    assert asked.values is None
    assert message in asked.message


def test_a_service_that_does_not_answer_is_waited_for_once(
    asking: Asking, server: Any, tmp_path: Path
) -> None:
    assert asking(answer(2.0, 0.0)).values
    write_endpoint(endpoint_file(RunPaths(tmp_path / "w-1"), "serve", 0), Endpoint("restarting", "", 1))
    server.shutdown()
    server.server_close()
    first = asking(answer(2.0, 0.0))
    second = asking(answer(2.0, 0.0))
    assert first.seconds > max(0.3, second.seconds), "a second is the most, with pauses that double"
    for asked in (first, second):
        assert asked.values is None
        assert asked.message.startswith("service 'serve' does not answer: ")


def test_a_service_that_hangs_is_asked_more_and_more_rarely(asking: Asking, server: Any) -> None:
    server.hangs.clear()
    began = time.monotonic()
    seconds = [asking(answer(2.0, 0.0), timeout="100ms").seconds for _ in range(1000)]
    assert time.monotonic() - began < 0.5 * 1000 * 0.1, "half of what asking each time would take"
    assert seconds[0] >= 0.1
    server.hangs.set()
    wait_for(lambda: asking(answer(2.0, 0.0), timeout="100ms").values)


def test_a_record_says_what_was_asked_and_whether_it_was_used(asking: Asking) -> None:
    used, unsure = asking(answer(2.0, 0.0)), asking(answer(2.0, 1.0))
    record: dict[str, Any] = {"key": "key", "parts": ("a", "b"), "values": {"y": 2.0}}
    used.tell(as_record(record))
    assert (record["key"], record["parts"]) == ("k", ("p", "i"))
    assert record["values"] == {"y": 2.0, "simulated": False}
    assert record["surrogate"] == {"asked": round(used.seconds, 6), "uncertainty": 0.0, "used": True}
    record = {"key": "key", "parts": ("a", "b")}
    unsure.tell(as_record(record))
    assert record["key"] == "key", "what was simulated does not depend on the model"
    assert record["values"] == {"simulated": True}


def test_an_answer_that_breaks_the_outputs_contract_is_simulated(asking: Asking) -> None:
    promises = {"y": Output(value="float", finite=True)}
    assert asking(answer(2.0, 0.0), promises=promises).values == {"y": 2.0}


@pytest.mark.parametrize(
    ("made", "relative", "error"),
    [
        ({"y": 2.25}, False, 0.25),
        ({"y": 1.0}, True, 0.5),
        ({"y": 2}, False, 0.0),
        ({"y": math.nan}, False, None),
        ({"y": "2"}, False, None),
        ({}, False, None),
    ],
)
def test_an_audited_task_is_simulated_and_its_record_says_how_far_the_answer_was_off(
    asking: Asking, made: dict[str, Any], relative: bool, error: float | None
) -> None:
    asked = asking(answer(2.0, 0.01), audited=True, relative=relative)
    assert asked.values is None
    record: dict[str, Any] = {"key": "key", "parts": ("a", "b"), "values": made}
    asked.tell(as_record(record))
    assert record["key"] == "key"
    assert record["values"] == {**made, "simulated": True}
    assert (record["surrogate"]["error"], record["surrogate"]["answer"]) == (error, "k")


def test_of_several_outputs_the_most_that_an_answer_was_off_counts(asking: Asking) -> None:
    both = answer({"y": 2.0, "z": 3.0}, {"y": 0.01, "z": 0.02})
    asked = asking(both, audited=True, outputs=("y", "z"))
    record: dict[str, Any] = {"values": {"y": 2.5, "z": 3.25}}
    asked.tell(as_record(record))
    assert record["surrogate"]["error"] == 0.5


def test_an_answer_that_is_too_unsure_is_not_audited(asking: Asking) -> None:
    asked = asking(answer(2.0, 0.2), audited=True)
    record: dict[str, Any] = {"values": {"y": 2.5}}
    asked.tell(as_record(record))
    assert "error" not in record["surrogate"]
