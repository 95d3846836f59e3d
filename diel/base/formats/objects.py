"""Objects of the field's libraries, read from files for functions that take them, and written to files.

A library is imported only where a function asks for its objects; one that returns them has loaded it.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from diel.base.formats.node import BadData, FileArray, opened
from diel.base.terms import lacking, suffix_of

MODULES = {
    "frame": "pandas",
    "arrow": "pyarrow",
    "dataset": "xarray",
    "dataarray": "xarray",
    "structure": "ase",
    "structures": "ase",
}
"""The library of each kind of object."""
USUAL = {".npy": "array", ".parquet": "frame", ".nc": "dataset", ".extxyz": "structure"}
"""The kind that a function returned which diel kept in such a file."""


def load(kind: str, path: str, inside: str | None = None, table: Any = None) -> Any:
    """Return an object of a file, or of a text's `table`. Raise BadData, also without its library."""
    more = () if table is None else (table,)
    try:
        return _LOADERS[kind](str(path), inside, *more)  # as text: a Path with a name may pass for a file
    except ImportError as error:
        extra = "ase" if MODULES.get(kind) == "ase" else "data"
        raise BadData(f"it takes {error.name}: pip install 'diel[{extra}]'") from error
    except (OSError, ValueError, KeyError) as error:
        raise BadData(f"{path} is no {MODULES.get(kind, 'array')} {kind}: {error}") from error


def load_array(path: str, inside: str | None) -> Any:
    """Return an array of a store, in memory and read-only."""
    with opened(path, inside) as content:
        if not isinstance(content, FileArray):
            raise BadData(f"{path} has several arrays: {', '.join(content)}; name one: {path}:/NAME")
        array = content.values()
    array.flags.writeable = False
    return array


def make_frame(table: Any, columns: Sequence[str] | None = None) -> Any:
    """Return a DataFrame of rows or columns. Whole numbers and truths with gaps are nullable; whole numbers
    beyond a double stay whole among other numbers."""
    import pandas  # here: only data of this kind needs it

    frame = pandas.DataFrame(table, columns=columns)
    exact = _exact(table, columns)
    for place, kind in enumerate(frame.dtypes):
        if kind.kind in "fO":
            _mend(frame, place, exact.iloc[:, place])
    return frame


def _exact(table: Any, columns: Sequence[str] | None = None) -> Any:
    """Return a DataFrame of Python's objects, with None in gaps."""
    import pandas  # here: as above

    exact = pandas.DataFrame(table, columns=columns, dtype=object)
    if isinstance(table, list) and table and all(isinstance(row, Mapping) for row in table):
        table = [{**dict.fromkeys(exact.columns), **row} for row in table]  # pandas puts NaN in gaps
        exact = pandas.DataFrame(table, columns=columns, dtype=object)
    return exact


def _mend(frame: Any, place: int, exact: Any) -> None:
    """Set a column to its exact values, where pandas would round them or hide that they are truths."""
    words = {item.__name__ for item in {*map(type, exact)}}
    kind = {"int": "Int64", "bool": "boolean"}.get("".join(words - {"NoneType"}), "object")
    large = "int" in words and any(type(item) is int and abs(item) > 2**53 for item in exact)
    if kind == "Int64" and any(item is not None and abs(item) >= 2**63 for item in exact):
        kind = "object"
    if large or (kind != "object" and "NoneType" in words):
        frame.isetitem(place, exact.astype(kind))


def _frame(path: str, inside: str | None, table: Any = None) -> Any:
    import pandas  # here: only data of this kind needs it

    if table is not None:
        return make_frame(table)
    match suffix_of(path):
        case ".parquet" | ".pq":
            return _of_parquet(path)
        case ".nc" | ".nc4" if not inside:
            return _of_netcdf(path)
    with opened(path, inside) as content:
        if isinstance(content, FileArray):
            name = (inside or "").rpartition("/")[2]
            columns = [name] if name and len(content.shape) == 1 else None
            return pandas.DataFrame(_items(content), columns=columns)
        for name, node in content.items():
            if len(node.shape) != 1:
                hint = "annotate with what has such arrays: xarray.Dataset, or list[ase.Atoms] for atoms"
                raise BadData(f"{name} has shape {list(node.shape)}, which is no column; {hint}")
        return pandas.DataFrame({name: _items(node) for name, node in content.items()})


def _items(node: FileArray) -> Any:
    """Return all items of an array; whole numbers with gaps are nullable."""
    items = None if node.masked is None else node.masked()
    lacks = getattr(items, "mask", None)
    if items is None or items.dtype.kind not in "iu" or items.ndim != 1 or lacks is None or not lacks.any():
        return node.values()
    import pandas  # here: as above

    return pandas.arrays.IntegerArray(items.data, lacks)


def _of_parquet(path: str) -> Any:
    """Return a table; whole numbers with gaps are nullable."""
    import pyarrow  # here: only data of this kind needs it
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    frame = table.to_pandas()
    for name, column in zip(table.column_names, table.columns, strict=True):
        if frame.get(name, frame).ndim != 1:
            continue
        nested = pyarrow.types.is_nested(column.type) and "int64" in str(column.type)
        if nested and _is_large(items := column.to_pylist()):  # which pandas would round beside gaps
            frame[name] = make_frame({name: items})[name].set_axis(frame.index)
        elif column.null_count and pyarrow.types.is_integer(column.type):
            frame[name] = make_frame({name: column.to_pylist()})[name].set_axis(frame.index)
    return frame


def _is_large(value: Any) -> bool:
    """Return whether a value holds a whole number that a double may not."""
    if isinstance(value, list | tuple | dict):
        return any(map(_is_large, value.values() if isinstance(value, dict) else value))
    return type(value) is int and abs(value) > 2**53


def _of_netcdf(path: str) -> Any:
    """Return all variables of a file; whole numbers with gaps are nullable."""
    import xarray  # here: only data of this kind needs it

    frame = _dataset(path, None, exact=False).to_dataframe().reset_index()
    with xarray.open_dataset(path, engine="netcdf4", decode_cf=False) as raw:
        for variable in raw.variables.values():
            for name in ("_FillValue", "missing_value"):
                variable.attrs.pop(name, None)
        whole = xarray.decode_cf(raw, decode_times=False).to_dataframe().reset_index()
    for name, items in whole.items():
        if frame[name].dtype.kind == "f" and items.dtype.kind in "iu":
            frame[name] = items.convert_dtypes().mask(frame[name].isna())
    return frame


def _arrow(path: str, inside: str | None, table: Any = None) -> Any:
    import pyarrow  # here: only data of this kind needs it
    import pyarrow.parquet

    if suffix_of(path) in (".parquet", ".pq"):
        return pyarrow.parquet.read_table(path)
    frame = _frame(path, inside, table)
    arrow = pyarrow.Table.from_pandas(frame, preserve_index=False)  # which makes null of NaN
    exact, kinds = (frame, ("f2", "f4", "f8")) if table is None else (_exact(table), ("f8", "O"))
    for place, kind in enumerate(frame.dtypes):
        if kind in kinds:
            known = None if kind == "O" else arrow.field(place).type
            items = pyarrow.array(exact.iloc[:, place].to_numpy(), known, from_pandas=False)
            arrow = arrow.set_column(place, arrow.field(place).name, items)
    return arrow


def _dataset(path: str, inside: str | None, table: Any = None, exact: bool = True) -> Any:
    import xarray  # here: only data of this kind needs it

    if suffix_of(path) not in (".nc", ".nc4", ".zarr", ".h5", ".hdf5"):
        frame = _frame(path, inside, table)
        kinds = {name: kind for name, kind in frame.dtypes.items() if str(kind) in ("Int64", "UInt64")}
        large = dict.fromkeys((name for name in kinds if _is_large(frame[name].tolist())), object)
        return xarray.Dataset.from_dataframe(frame.astype(large))  # whose values would be doubles
    if missing := lacking(path):
        raise BadData(f"to read it takes {missing}")
    engine = "zarr" if path.endswith(".zarr") else "netcdf4"
    with xarray.open_dataset(path, engine=engine, group=inside) as lazy:
        dataset = lazy.load()
    for name, variable in dataset.variables.items():
        was_long = str(variable.encoding.get("dtype")) in ("int64", "uint64")
        if exact and was_long and variable.dtype.kind == "f" and (abs(variable) >= 2**53).any():
            message = f"{name} has gaps or a scale, and whole numbers beyond 2^53, which xarray rounds"
            raise BadData(f"{message}; annotate it with pandas.DataFrame")
    return dataset


def _dataarray(path: str, inside: str | None, table: Any = None) -> Any:
    if inside:
        group, _, name = inside.rpartition("/")
        return _dataset(path, group or None)[name]
    dataset = _dataset(path, None, table)
    if len(dataset.data_vars) != 1:
        raise BadData(f"{path} has {', '.join(map(str, dataset.data_vars))}; name one: {path}:/NAME")
    return next(iter(dataset.data_vars.values()))


def _structure(path: str, inside: str | None, frames: Any = -1) -> Any:
    from ase.io import read  # here: ASE loads slowly
    from ase.io.formats import UnknownFileTypeError

    try:
        return read(path, index=frames)
    except UnknownFileTypeError as error:
        raise BadData(f"{path} is of no format of atoms that ASE knows") from error


_LOADERS: dict[str, Callable[..., Any]] = {
    "array": load_array,
    "frame": _frame,
    "arrow": _arrow,
    "dataset": _dataset,
    "dataarray": _dataarray,
    "structure": _structure,
    "structures": partial(_structure, frames=":"),
}


def kind_of(value: Any) -> str | None:
    """Return the kind of an object that is kept in a file; None for all others. It imports nothing."""
    if isinstance(value, list | tuple):
        return "structures" if value and all(kind_of(item) == "structure" for item in value) else None
    for kind, module, names in (
        ("frame", "pandas", ("DataFrame", "Series")),
        ("arrow", "pyarrow", ("Table", "RecordBatch")),
        ("arrow", "polars", ("DataFrame",)),
        ("dataset", "xarray", ("Dataset", "DataArray")),
        ("structure", "ase", ("Atoms",)),
    ):
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(value, tuple(getattr(loaded, name) for name in names)):
            return kind
    return None


def save(kind: str, value: Any, path: str) -> str:
    """Write an object to a file whose name begins so; return the file. Raise BadData where it fails."""
    try:
        return _WRITERS[kind](value, path)
    except ImportError as error:
        raise BadData(
            f"to keep a {type(value).__name__} takes {error.name}: pip install 'diel[data]'"
        ) from error
    except (OSError, ArithmeticError, LookupError, NotImplementedError, TypeError, ValueError) as error:
        raise BadData(f"a {type(value).__name__} cannot be written: {error}") from error


def _write_frame(value: Any, path: str) -> str:
    frame = value.to_frame() if hasattr(value, "to_frame") else value
    index = frame.index
    if type(index).__name__ != "RangeIndex" or index.name is not None or [*index[:2]] != [0, 1][: len(index)]:
        frame = frame.reset_index()  # an index with meaning becomes columns
    frame = frame.rename(columns=str)
    if lacking(".parquet"):
        frame.to_csv(f"{path}.csv", index=False)
        return f"{path}.csv"
    frame.to_parquet(f"{path}.parquet", index=False)
    return f"{path}.parquet"


def _write_arrow(value: Any, path: str) -> str:
    import pyarrow  # here: only data of this kind needs it
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(value), f"{path}.parquet")
    return f"{path}.parquet"


def _write_dataset(value: Any, path: str) -> str:
    import netCDF4  # noqa: F401  # which xarray would replace by an older format where it is missing

    # without the encoding of the file that it came from, which may round or pack other numbers
    value.drop_encoding().to_netcdf(f"{path}.nc", engine="netcdf4")
    return f"{path}.nc"


def _write_structures(value: Any, path: str) -> str:
    from diel.base.formats.extxyz import write_frames  # here: it loads ASE

    write_frames(f"{path}.extxyz", value if isinstance(value, list | tuple) else [value])
    return f"{path}.extxyz"


_WRITERS = {
    "frame": _write_frame,
    "arrow": _write_arrow,
    "dataset": _write_dataset,
    "structure": _write_structures,
    "structures": _write_structures,
}
