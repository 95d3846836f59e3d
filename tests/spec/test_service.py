"""What a file may say of a service, and what is meant where it says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from diel.workflow.models import Service
from tests.spec.flawed import flaws_of


def test_true_is_a_service_that_is_ready_when_its_port_takes_connections() -> None:
    service = Service.model_validate(True)
    assert service == Service.model_validate({})
    assert (service.port, service.ready.tcp, service.replicas, service.reload) == ("auto", True, 1, None)


@pytest.mark.parametrize(
    ("reload", "path"), [(True, "/reload"), (False, None), ("/new", "/new"), (None, None)]
)
def test_true_is_short_for_the_usual_path_of_newer_inputs(reload: object, path: str | None) -> None:
    assert Service.model_validate({"reload": reload}).reload == path


@pytest.mark.parametrize(
    ("given", "message", "key"),
    [
        (False, "expected true or a mapping, found false", ()),
        ({"port": "8080"}, "expected auto or a number, found '8080'", ()),
        ({"port": True}, "expected auto or a number, found true", ()),
        (
            {"port": 8080, "replicas": 2},
            "2 replicas cannot all listen at port 8080 of one machine",
            ("port",),
        ),
        ({"reload": "new"}, "expected true or a path such as /reload, found 'new'", ("reload",)),
        ({"ready": {"http": "health"}}, "expected a path such as /health, found 'health'", ("http",)),
        ({"ready": {"ftp": 1}}, "'ftp' cannot show that a service is ready", ("ftp",)),
        ({"ready": {}}, "expected one of http, tcp and log; found none", ()),
        ({"ready": {"tcp": True, "log": "up"}}, "expected one of http, tcp and log; found tcp and log", ()),
        ({"ready": "/health"}, "expected a mapping, found '/health'", ()),
    ],
)
def test_what_is_no_service_is_refused_with_its_place(given: Any, message: str, key: tuple[str, ...]) -> None:
    (flaw,) = flaws_of(Service, given)
    assert (flaw.message, flaw.key) == (message, key)
