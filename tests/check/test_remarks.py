"""What `validate`, `plan` and `run` warn of."""

from __future__ import annotations

from pathlib import Path

from diel.check.remarks import warnings
from tests.check.asking import checked
from tests.handmade import Handmade

DESIGN = "axes: {d: {sample: {method: lhs, points: 4, parameters: {u: {low: 0, high: 1}}}}}\n"
STAGE = "stages: {s: {over: [d], command: echo}}\n"


def test_an_enlarged_hypercube_is_warned_of_where_its_points_are_counted(tmp_path: Path) -> None:
    paths = Handmade(tmp_path, "stages: {f: {command: [echo]}}", "w-1").paths
    paths.axis("d").parent.mkdir(exist_ok=True)
    paths.axis("d").write_text('["u"]\n[0.1]\n[0.6]\n', encoding="utf-8")
    known = checked(tmp_path, DESIGN + STAGE)
    (warning,) = warnings(known, tmp_path / "runs")
    assert warning.key == "axes.d.sample.points"
    assert "none of the 2 points of w-1 comes again" in warning.message
