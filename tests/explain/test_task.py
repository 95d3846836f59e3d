"""What an explanation says that a task gets: its point, parameters, command and inputs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.explain.test_run import flow, of_task, text_of_task


def test_a_task_tells_its_point_parameters_command_and_inputs(tmp_path: Path) -> None:
    run = flow(tmp_path, alive=True)
    for index in range(3):
        run.done("sim", index, {"log": f"text {index}"}, e=index + 0.5)
    run.done("fit", 0, m=1.5).done("fit", 1, m=2.5)
    told = of_task(run, "score", 4)
    assert told["point"] == {"r": "b", "t": 20}
    assert told["params"] == {"r": "b", "t": 20}
    log = str(run.paths.task_dir("sim", 1, 1) / "log.txt")
    assert told["command"][-1] == f"score 2.5 {log}\necho done"
    assert told["inputs"]["m"] == {
        "from": "fit.m",
        "rule": "matches r, same for every t",
        "tasks": 1,
        "done": 1,
        "task": "fit/1",
        "value": 2.5,
    }
    assert told["inputs"]["log"]["value"] == log
    assert told["inputs"]["scale"] == {"from": "hp.scale", "value": 2.0}
    gathered = of_task(run, "fit", 0)["inputs"]["e"]
    assert (gathered["tasks"], gathered["value"]) == (3, [0.5, 1.5, 2.5])
    assert of_task(run, "sim", 2)["command"] == ["echo", "60.0"]
    text = text_of_task(run, "score", 4)
    assert f"\ncommand\n    score 2.5 {log}\n    echo done\n" in text
    json.dumps(told)
