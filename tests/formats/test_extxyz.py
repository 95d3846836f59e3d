"""Frames of extended XYZ: what their second lines say, and what each atom has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import UsageError
from diel.base.formats.node import BadData, opened
from diel.workflow.models.forms.rows import read_points
from tests.formats.made import make
from tests.throwaway import Project


def test_frames_have_rows_and_atoms_have_arrays(tmp_path: Path) -> None:
    with opened(str(make(tmp_path, "a.extxyz"))) as found:
        assert isinstance(found, dict)
        assert {
            name: (one.shape, one.word)
            for name, one in found.items()
            if name in ("energy", "n", "forces", "species")
        } == {
            "energy": ((3,), "float"),
            "n": ((3,), "int"),
            "forces": ((12, 3), "float"),
            "species": ((12,), "str"),
        }
        assert found["forces"].values().shape == (12, 3)
        assert found["species"].values().tolist() == ["Cu"] * 12
        assert found["pos"].values().max() > 1


def test_a_frame_that_is_cut_short_is_told(tmp_path: Path) -> None:
    path = make(tmp_path, "a.extxyz")
    path.write_text("\n".join(path.read_text().splitlines()[:-2]) + "\n")
    with pytest.raises(BadData, match="its last frame is cut short: 2 of 4 atoms"), opened(str(path)):
        pass


def written(path: Path, *says: str) -> Path:
    """A file with a frame of one atom for each second line."""
    path.write_text("".join(f"1\n{line}\nH 0 0 0\n" for line in says))
    return path


@pytest.mark.parametrize(
    ("says", "values"),
    [
        (["007", "8"], ["007", "8"]),
        (["+5", ".5"], ["+5", ".5"]),
        (["1_000", "2"], ["1_000", "2"]),
        (['"009"', "10"], ["009", "10"]),
        (['"_JSON \\"009\\""', "10"], ["009", "10"]),
        (["123456789012345678901", "7"], ["123456789012345678901", "7"]),
        (["1", "0.5"], [1.0, 0.5]),
        (["9007199254740993", "0.5"], ["9007199254740993", "0.5"]),
        (["18446744073709551615", "-1"], [18446744073709551615, -1]),
        (["a", "5"], ["a", "5"]),
        (["T", "5"], ["T", "5"]),
        (["T", "F"], [True, False]),
        ([".5", "-1."], [0.5, -1.0]),
        (["3", "NaN"], [3, float("nan")]),
        (['"x = 1"', "2"], ["x = 1", "2"]),
    ],
)
def test_what_frames_say_is_of_one_type_and_ids_are_texts_as_in_csv(
    tmp_path: Path, says: list[str], values: list[Any]
) -> None:
    path = written(tmp_path / "a.extxyz", *(f"id = {word} e=1" for word in says))
    found = read_points(path, "x", ("id",)).columns[0]
    assert [*map(repr, found)] == [*map(repr, values)]
    texts = read_points(path, "x", ("id",), types={"id": "str"}).columns[0]
    assert texts == [word.strip('"').removeprefix('_JSON \\"').rstrip('"\\') for word in says]


def test_a_declared_type_of_a_frame_is_refused_with_its_frame(tmp_path: Path) -> None:
    path = written(tmp_path / "a.extxyz", "id=007", "id=x7")
    with pytest.raises(UsageError, match="a.extxyz: frame 2: id is 'x7'; expected int"):
        read_points(path, "x", None, types={"id": "int"})
    with pytest.raises(UsageError, match="a.extxyz: frame 1: id is 1e400: a number beyond"):
        read_points(written(path, "id=1e400"), "x", None)


FRAMES = """
    axes:
      listed: {file: sites.xyz}
      typed: {file: {path: sites.xyz, columns: {id: str, t: str}}}
      made: {from: make.sites, columns: [id]}
    stages:
      make: {over: [typed], command: "printf '1\\nid=%s\\nH 0 0 0\\n' ${{ id }} > s.xyz", outputs: {sites: %s}}
      show: {over: [made], command: [echo, "${{ id }}"]}
      list: {over: [listed], command: [echo, "${{ id }}"]}
"""


@pytest.mark.parametrize("output", ["s.xyz", "{path: s.xyz, columns: {id: str}}"])
def test_an_id_in_frames_goes_through_a_workflow_as_it_is_written(tmp_path: Path, output: str) -> None:
    project = Project(tmp_path).workflow(
        FRAMES.replace("outputs: {sites: %s}", f"outputs: {{sites: {output}}}")
    )
    written(tmp_path / "sites.xyz", "id=007 t=1.10", "id=8 t=2")
    told = project.diel("validate", "flow.yaml")
    assert "axes.listed.file: column 't': 1.10 is read as 1.1" in told
    assert "columns: {atoms: int, id: str, t: str}" in told
    project.run()
    for stage in ("show", "list"):
        assert [project.diel("logs", "last", f"{stage}/{n}").split()[-1] for n in (0, 1)] == ["007", "8"]
