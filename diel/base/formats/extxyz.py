"""Frames of atoms in extended XYZ: a row of numbers for each frame, and arrays with one row for each atom."""

import contextlib
import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy
from ase.io import extxyz, iread
from ase.stress import voigt_6_to_full_3x3_stress

from diel.base.cells import BadCell, column_values, lost_spelling
from diel.base.formats.node import BadData, Content, FileArray

_KINDS = {"R": "f8", "I": "i8", "S": "U", "L": "?"}


@contextlib.contextmanager
def open_frames(path: str, types: Mapping[str, str]) -> Iterator[Content]:
    """Open what all frames say in line two, `atoms`, and lazily what each atom has, such as `pos`."""
    frames = list(_frames(path))
    shared = [key for key in (frames[0] if frames else {}) if all(key in frame for frame in frames)]
    arrays: dict[str, FileArray] = {}
    for key in shared:
        if key != "Properties":
            arrays[key] = _column(key, [frame[key] for frame in frames], types.get(key))
    properties = str(frames[0].get("Properties", ["species:S:1:pos:R:3"])[0]).split(":") if frames else []
    for name, kind, width in zip(properties[::3], properties[1::3], properties[2::3], strict=True):
        sizes = () if width == "1" else (int(width),)
        atoms = sum(frame["atoms"][0] for frame in frames)
        shape, dtype = (atoms, *sizes), numpy.dtype(_KINDS[kind])
        arrays[name] = FileArray(shape, dtype, partial(_of_atoms, path, name), axes=("atom",))
    yield arrays


def _column(key: str, frames: Sequence[tuple[Any, str]], kind: str | None) -> FileArray:
    """Return what frames say for a key: of its declared type, or of one as in CSV, so that ids stay texts."""
    values, lost = [value for value, _ in frames], None
    of_bool = kind in (None, "bool") and all(isinstance(value, bool) for value in values)
    if not of_bool and all(isinstance(value, bool | str | numpy.number) for value in values):
        cells = [value if isinstance(value, str) else text for value, text in frames]
        try:
            made = column_values(cells, kind)
        except BadCell as error:
            raise BadData(f"frame {error.row + 1}: {key} is {error}") from None
        if kind is None and isinstance(made[0], str) and not any(map(_is_text, values, cells)):
            numbers = [value.item() for value in values]  # the format has more than CSV: `.5`, `NaN`
            if float not in map(type, numbers) or all(math.isnan(n) or float(n) == n for n in numbers):
                made = numbers
        values, lost = made, None if kind else lost_spelling(cells, made)
    mixed = len({isinstance(value, str) for value in values}) > 1
    items = numpy.array(values, object if mixed else None)
    exact = partial(numpy.array, values, object) if items.dtype.kind == "f" else None
    return FileArray(items.shape, items.dtype, partial(iter, [((0,) * items.ndim, items)]), exact, lost=lost)


def _is_text(value: Any, cell: str) -> bool:
    """Return whether a value is none of the format's numbers, or a whole one with other digits: an id."""
    return not isinstance(value, numpy.number) or (not cell.strip("+-_0123456789") and str(value) != cell)


def _frames(path: str) -> Iterator[dict[str, tuple[Any, str]]]:
    """Yield what each frame says, by its keys: as ASE reads it, and as it is written."""
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
            marked = re.sub(
                r"(?<!\\)(\s*=\s*)", "\0\\1\0", comment
            )  # so that ASE takes no value for a number
            texts = extxyz.key_val_str_to_dict(marked)
            frame = {"atoms": (atoms, line.strip())}
            for key, value in extxyz.key_val_str_to_dict(comment).items():
                frame[key] = value, str(texts.get(f"{key}\0", value)).replace("\0", "")
            yield frame


def _of_atoms(path: str, name: str) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield the rows of all atoms, frame by frame."""
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


def write_frames(path: str, frames: Sequence[Any]) -> None:
    """Write atoms with all digits and types. Raise BadData for what ASE would not read again as it is."""
    with open(path, "w", encoding="utf-8") as file:
        for atoms in frames:
            file.writelines(_written(atoms))
    for atoms, again in zip(frames, iread(path, format="extxyz"), strict=True):
        here, there = _parts(atoms), _parts(again)
        for name in {**here, **there}:
            if name not in here or name not in there or not _is_same(here[name], there[name]):
                raise BadData(_REFUSED.format(name))


_REFUSED = "extended XYZ does not hold {} of these atoms as it is: remove it, or make it an output of its own"


def _parts(atoms: Any) -> dict[str, Any]:
    """Return what atoms hold, by name; results of a calculator only if they are those of these atoms."""
    results = {} if atoms.calc is None or atoms.calc.check_state(atoms) else atoms.calc.results
    names = (type(item).__name__ for item in atoms.constraints)
    other = [name for name in names if name not in ("FixAtoms", "FixCartesian")]
    return {
        "the cell": [*atoms.cell.array, *atoms.get_celldisp().reshape(1, 3)],
        "pbc": atoms.pbc,
        f"the constraint {''.join(other[:1])}": other or extxyz._make_move_mask(atoms),
        **{f"arrays['{name}']": array for name, array in atoms.arrays.items()},
        **{f"info['{name}']": value for name, value in atoms.info.items()},
        **{f"calc.results['{name}']": value for name, value in results.items()},
    }


def _written(atoms: Any) -> Iterator[str]:
    """Yield the lines of a frame: ASE's, but with all digits."""
    whole, free = atoms.copy(), extxyz._make_move_mask(atoms)
    if atoms.calc is not None and not atoms.calc.check_state(atoms):
        extxyz.save_calc_results(whole, atoms.calc, calc_prefix="")
    if numpy.shape(whole.info.get("stress")) == (6,):
        whole.info["stress"] = voigt_6_to_full_3x3_stress(whole.info["stress"])
    whole.info = {name: _as_text(name, value) for name, value in whole.info.items()}
    mask = {} if free.all() else {"move_mask": free}
    columns = {"symbols": numpy.array([*whole.symbols]), **whole.arrays, **mask}
    del columns["numbers"]
    for name, array in columns.items():
        blank = array.dtype.kind in "UO" and any(len(str(text).split()) != 1 for text in array.flat)
        if blank or array.ndim > 2 or array.dtype.kind not in "fibUO":
            raise BadData(_REFUSED.format(f"arrays['{name}']"))
    comment, _, _, row = extxyz.output_column_format(whole, [*columns], columns)
    yield f"{len(whole)}\n{comment}\n"
    cells = (part.tolist() for column in columns.values() for part in numpy.atleast_2d(column.T))
    yield from (row.replace("%16.8f", "%r") % values for values in zip(*cells, strict=True))


def _as_text(name: str, value: Any) -> Any:
    """Return a value of `info` for ASE: as JSON where it would read another one, as 7 for `"007"`."""
    value = value.item() if isinstance(value, numpy.generic) else value
    with warnings.catch_warnings(action="ignore"), contextlib.suppress(ValueError, IndexError):
        if _is_same(value, extxyz.key_val_str_to_dict(extxyz.key_val_dict_to_str({name: value})).get(name)):
            return value
    text = json.dumps(getattr(value, "tolist", lambda: value)(), default=repr)
    return "_JSON " + text.replace("\\", "\\\\")  # which ASE does not escape


def _is_same(value: Any, again: Any) -> bool:
    """Return whether two values are equal in type, shape and all digits; a list may be an array."""
    one, other = numpy.asarray(value), numpy.asarray(again)
    kinds = {array.dtype.kind.replace("u", "i").replace("U", "O") for array in (one, other)}
    if kinds == {"O"}:  # also texts
        return one.shape == other.shape and bool(one.tolist() == other.tolist())
    return len(kinds) == 1 and numpy.array_equal(one, other, equal_nan=bool(kinds & {"f", "c"}))
