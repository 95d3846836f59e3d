"""Where the files of a task go: one file, a directory, the files of a pattern."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import ModuleError
from diel.controller.export import Exports
from diel.workflow.models import Stage


def placed(output: dict[str, Any], entry: dict[str, Any]) -> list[tuple[str, str]]:
    """Where an output goes that a task made: source and target, from the run and from the workflow."""
    stage = Stage.model_validate({"command": ["true"], "outputs": {"o": output}})
    exports = Exports(stage, Path("/lab"), Path("/runs/w-2"))
    found = exports.of({"m": "si"}, {"artifacts": {"o": entry}, "values": {"v": 1}})
    return [(one.source, one.target) for one in found]


@pytest.mark.parametrize(
    ("export", "target"),
    [
        ("r/${{ m }}.csv", "/lab/r/si.csv"),
        ("r/${{ m }}/", "/lab/r/si/o.csv"),
        ("../r.csv", "/r.csv"),
        ("/data/${{ m }}", "/data/si"),
    ],
)
def test_a_file_goes_below_the_workflow_or_where_its_path_says(export: str, target: str) -> None:
    entry = {"path": "tasks/s/0/out/o.csv", "size": 1, "digest": "d"}
    assert placed({"path": "out/o.csv", "export": export}, entry) == [
        ("/runs/w-2/tasks/s/0/out/o.csv", target)
    ]


def test_the_files_of_a_pattern_keep_what_the_pattern_left_open() -> None:
    files = [{"path": f"tasks/s/0.2/out/{name}/x.csv", "size": 1, "digest": "d"} for name in "ab"]
    entry = {"files": files, "size": 2}
    targets = [target for _, target in placed({"glob": "out/*/x.csv", "export": "r"}, entry)]
    assert targets == ["/lab/r/a/x.csv", "/lab/r/b/x.csv"]


def test_what_is_no_file_is_not_exported() -> None:
    stage = Stage.model_validate({"module": "m:f", "outputs": {"v": {"export": "v"}}})
    exports = Exports(stage, Path("/lab"), Path("/runs/w-2"))
    with pytest.raises(ModuleError, match="'v' is a value: only files are exported"):
        [*exports.of({}, {"values": {"v": 1}})]
