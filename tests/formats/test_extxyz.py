"""Frames of extended XYZ: what their second lines say, and what each atom has."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.formats.node import BadData, opened
from tests.formats.made import make


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
