"""What to do next after a failure, by its class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.explain.test_run import flow, of_run, of_task


@pytest.mark.parametrize(
    ("told", "advice"),
    [
        ({"class": "timeout"}, "(now 10m00s)"),
        ({"class": "launch"}, "install the program or module"),
        ({"class": "node", "exit_code": None}, "more memory than there is"),
        ({"class": "upstream"}, "diel results w-1"),
        ({"class": "node", "exit_code": 137}, "more `resources.memory`"),
    ],
)
def test_each_class_of_failure_says_what_to_do_next(
    tmp_path: Path, told: dict[str, Any], advice: str
) -> None:
    run = flow(tmp_path).failed("sim", 0, **told).end("failed")
    assert advice in of_run(run)["failures"][0]["next"]
    assert advice in of_task(run, "sim", 0)["next"]


def test_what_others_went_on_without_is_not_to_be_resumed(tmp_path: Path) -> None:
    run = (
        flow(tmp_path).failed("sim", 0).write("tolerated", stage="sim", tasks=[[0, 0]], cause="`min_success`")
    )
    step = of_task(run, "sim", 0)["next"]
    assert "`diel logs w-1 sim/0`" in step
    assert "resume" not in step
    assert of_task(run, "sim", 0)["why"][1] == "others went on without it, as `min_success` allows"
