"""A contract: what an output promises to be, and what a stage expects of an input.

Who makes the output is held to it right after its task; `validate` compares the two ends of an edge.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from diel.base.errors import did_you_mean
from diel.base.terms import ABOUT, COUNT, FITS, format_of
from diel.workflow.models.model import Items, SpecModel, Violation, filled, optional, quote, refuse

DTYPES = (
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64", "complex64", "complex128", "str"),
)
"""NumPy's names for the types of arrays on disk; `str` is text of any length."""
_LOOSE = {"float": "float64", "double": "float64", "int": "int64", "single": "float32", "half": "float16"}
_SIZE_NAME = r"[A-Za-z_][A-Za-z0-9_]*"

ColumnType = Literal["int", "float", "str", "bool"]
KeyType = Literal["int", "float", "str", "bool", "list", "dict"]


def _count(value: Any) -> str:
    """Return a number of things in its stored form: `>=100`, or `==3` for a plain number."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return f"=={value}"
    match = COUNT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise refuse(f"expected a number, found {quote(value)}", 'write 100, or ">=100", ">0", "<=10"')
    return f"{match[1] or '=='}{int(match[2])}"


def _dtype(value: Any) -> str:
    if value in DTYPES:
        return str(value)
    near = _LOOSE.get(str(value)) or next((n for n in DTYPES if n == str(value).lower()), None)
    hint = f"write {near}" if near else did_you_mean(str(value), DTYPES)
    raise refuse(f"unknown dtype {quote(value)}", hint or f"dtypes: {', '.join(DTYPES)}")


def _size(value: Any) -> int | str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise refuse(
            f"expected a size, found {quote(value)}", 'write 3, "*" for any size, or a name such as n'
        )
    if isinstance(value, int):
        if value < 0:
            raise refuse(f"a negative size {value}", 'write "*" for any size')
        return value
    if value != "*" and re.fullmatch(_SIZE_NAME, value) is None:
        hint = "a name has letters, digits and _, and means one size everywhere"
        raise refuse(f"{quote(value)} is not a size", f'write 3, "*" for any, or a name such as n; {hint}')
    return value


def _units(value: Any) -> Any:
    """Check units of all numbers, or of columns by name."""
    if isinstance(value, dict) and value:
        return {name: _one_unit(unit) for name, unit in value.items()}
    return _one_unit(value)


def _one_unit(value: Any) -> str:
    text = str(value).strip() if isinstance(value, str) or value == 1 else ""
    if not text:
        message = (
            "empty units"
            if value == {} or isinstance(value, str)
            else f"expected units, found {quote(value)}"
        )
        raise refuse(message, "write them as in K or eV/atom, 1 for a plain number, {COLUMN: K} for a table")
    return text


Count = Annotated[
    str,
    BeforeValidator(_count),
    WithJsonSchema({"type": ["string", "integer"], "examples": [100, ">=100", "<10"]}),
]
Size = Annotated[int | str, BeforeValidator(_size)]
Dtype = Annotated[str, BeforeValidator(_dtype), WithJsonSchema({"type": "string", "enum": [*DTYPES]})]


class DataContract(SpecModel):
    """What both ends of an edge can expect of data."""

    columns: (
        Annotated[
            dict[str, ColumnType], filled(dict, "no columns", "name at least one: {temperature: float}")
        ]
        | None
    ) = optional("Columns of a CSV or JSON lines file, with the type of their values.")
    dtype: Dtype | None = optional("Type of an array's items, by NumPy's name.")
    shape: Items[Size] | None = optional(
        'Sizes of an array: a number, "*" for any, or a name, which is the same size everywhere.'
    )
    units: Annotated[str | dict[str, str], BeforeValidator(_units)] | None = optional(
        "Units of the numbers, or of columns by name. What differs at the two ends of an edge is converted."
    )

    @property
    def expectations(self) -> tuple[str, ...]:
        """The keys of this kind that are given."""
        return tuple(
            name for name in ("columns", "dtype", "shape", "units") if getattr(self, name) is not None
        )


class Contract(DataContract):
    """What an output promises."""

    rows: Count | None = optional('Rows of a table, first size of an array: `100`, `">=100"`.')
    finite: bool = optional("Whether NaN and infinite numbers are forbidden.", False)
    keys: (
        Annotated[dict[str, KeyType], filled(dict, "no keys", "name at least one: {energy: float}")] | None
    ) = optional("Keys of a JSON object, with the type of their values.", alias="json")
    files: Count | None = optional('The number of files in a directory or glob: `10`, `">=10"`.')

    @property
    def promises(self) -> tuple[str, ...]:
        """The promises, by the keys' names in the file."""
        words = [*self.expectations]
        words += [name for name in ("rows", "files") if getattr(self, name) is not None]
        return (*words, *(("finite",) if self.finite else ()), *(("json",) if self.keys is not None else ()))


_WRITTEN = {
    "table": "a table is a .csv, .tsv, .jsonl, .parquet, .h5, .nc, .zarr or .extxyz file",
    "array": "an array is a .npy file, or inside an .h5, .nc or .zarr file",
    "json": "JSON is a .json file, or `value: dict`",
    "files": "`files` counts those of a directory or glob",
}


def contract_flaws(
    contract: Contract, path: str | None, glob: str | None, value: str | None
) -> Iterator[Violation]:
    """Yield keys of a contract that do not fit together, or do not fit the output."""
    about = {name: ABOUT[name] for name in contract.promises if name in ABOUT}
    first = next(iter(about), None)
    for name, kind in about.items():
        if first is not None and kind != about[first]:
            message = f"`{name}` and `{first}` cannot both hold: {_WRITTEN[kind]}, {_WRITTEN[about[first]]}"
            yield Violation(message, "keep one of them, or make two outputs", (name,))
            return
    if glob is not None:
        for name in contract.promises:
            if name != "files":
                hint = f'say how many: files: ">=1"; or make one file of them, for which {name} can hold'
                yield Violation(f"`{name}` is about one file, and a glob is a list of them", hint, (name,))
    elif value is not None:
        yield from _value_flaws(contract, value)
    elif path is not None:
        yield from _path_flaws(contract, path)


def _value_flaws(contract: Contract, value: str) -> Iterator[Violation]:
    fitting = {"units": ("int", "float", "list"), "finite": ("float", "list", "dict"), "json": ("dict",)}
    if isinstance(contract.units, dict):
        yield Violation("a value has no columns", "write the units of its numbers, as text", ("units",))
    for name in contract.promises:
        if name not in fitting:
            hint = "drop it, or write a file and declare its `path`"
            yield Violation(f"`{name}` is about files, found a value", hint, (name,))
        elif value not in fitting[name]:
            hint = f"drop it, or write value: {fitting[name][0]}"
            yield Violation(f"`{name}` does not apply to a value of type {value}", hint, (name,))


def _path_flaws(contract: Contract, path: str) -> Iterator[Violation]:
    kind = format_of(path)
    open_end = path.rstrip().endswith("}}")
    for name in contract.promises:
        about = ABOUT.get(name)
        if about == "files":
            if kind is not None:
                hint = "drop it, or give the path of a directory"
                yield Violation(f"{quote(path)} is one file; {_WRITTEN['files']}", hint, (name,))
        elif about is not None and kind not in FITS.get(about, {about}) and not open_end:
            hint = f"{_WRITTEN[about]}: give the path that suffix, or drop `{name}`"
            yield Violation(f"`{name}` cannot be read from {quote(path)}", hint, (name,))
        elif about is None and name != "units" and not open_end and kind in (None, *_DUMB.get(name, ())):
            hint = f"{_WRITTEN['table']}, {_WRITTEN['array']}; drop `{name}` for other files"
            yield Violation(f"`{name}` cannot be read from {quote(path)}", hint, (name,))


_DUMB = {"rows": ("json",)}
"""Formats that have no dtype."""
