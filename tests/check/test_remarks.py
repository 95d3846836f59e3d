"""What `validate`, `plan` and `run` warn of."""

from __future__ import annotations

from pathlib import Path

from diel.planning.check.remarks import column_lines, warnings
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


def test_columns_whose_spelling_is_lost_and_numbers_with_zeros_before_them_are_warned_of(
    tmp_path: Path,
) -> None:
    (tmp_path / "f.csv").write_text("id,version,batch\n007,1.10,2.50\n12,1.9,3\n", encoding="utf-8")
    stages = "stages: {s: {over: [f, k], command: [echo, 007]}}\n"
    known = checked(
        tmp_path, "axes: {f: {file: f.csv}, k: {values: [007, '008', 0, 0.5, 1.1, 1.10, 2.50]}}\n" + stages
    )
    said = [str(warning) for warning in warnings(known, tmp_path / "runs")]
    assert len(said) == 4
    assert "axes.f.file: column 'version': 1.10 is read as 1.1" in said[0]
    assert all("columns: {id: str, version: str, batch: str}" in hint for hint in said[:2])
    assert "w.yaml:3:39: 007 is the number 7\n    an id is a text: put it in quotes, '007'" in said[2]
    assert "w.yaml:3:64: 1.10 is the number 1.1\n    an id is a text: put it in quotes, '1.10'" in said[3]
    assert column_lines(known) == ["f: id: str, version: float, batch: float"]
    typed = "axes: {f: {file: {path: f.csv, columns: {version: str, id: str}}}}\nstages: {s: {over: [f], command: echo}}\n"
    assert not [*warnings(checked(tmp_path, typed), tmp_path / "runs")]
