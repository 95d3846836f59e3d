"""Frames of atoms in extended XYZ: a row of numbers for each frame, and arrays with one row for each atom."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy

from diel.formats.node import BadData, Content, FileArray

_KINDS = {"R": "f8", "I": "i8", "S": "U", "L": "?"}


@contextlib.contextmanager
def open_frames(path: str, inside: str) -> Iterator[Content]:
    """Open what all frames say in line two, `atoms`, and lazily what each atom has, such as `pos`."""
    frames = list(_frames(path))
    shared = [key for key in (frames[0] if frames else {}) if all(key in frame for frame in frames)]
    arrays: dict[str, FileArray] = {}
    for key in shared:
        if key != "Properties":
            items = numpy.array([frame[key] for frame in frames])
            arrays[key] = FileArray(items.shape, items.dtype, partial(iter, [((0,) * items.ndim, items)]))
    properties = str(frames[0].get("Properties", "species:S:1:pos:R:3")).split(":") if frames else []
    for name, kind, width in zip(properties[::3], properties[1::3], properties[2::3], strict=True):
        sizes = () if width == "1" else (int(width),)
        atoms = sum(int(frame["atoms"]) for frame in frames)
        arrays[name] = FileArray((atoms, *sizes), numpy.dtype(_KINDS[kind]), partial(_of_atoms, path, name))
    yield arrays


def _frames(path: str) -> Iterator[dict[str, Any]]:
    from ase.io.extxyz import key_val_str_to_dict  # here: ASE loads slowly

    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            if not line.strip().isdigit():
                raise BadData(f"frame {number} begins with {line.strip()[:40]!r}; expected a number of atoms")
            atoms, comment = int(line), next(file, None)
            lines = sum(1 for _, _ in zip(range(atoms), file, strict=False))
            if comment is None or lines < atoms:
                raise BadData(f"its last frame is cut short: {lines} of {atoms} atoms")
            yield {"atoms": atoms, **key_val_str_to_dict(comment)}


def _of_atoms(path: str, name: str) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield the rows of all atoms, frame by frame."""
    from ase.io import iread  # here: ASE loads slowly

    name = "positions" if name == "pos" else name
    start = 0
    for atoms in iread(path, format="extxyz"):
        if name in ("species", "symbols"):
            items = numpy.array(atoms.get_chemical_symbols())
        elif name in atoms.arrays:
            items = atoms.arrays[name]
        else:
            items = atoms.calc.results[name]
        yield (start,) + (0,) * (items.ndim - 1), items
        start += len(items)
