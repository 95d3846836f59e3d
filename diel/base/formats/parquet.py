"""Tables in Parquet files."""

import contextlib
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy
import pyarrow as arrow
from pyarrow import parquet

from diel.base.formats.node import BadData, Content, FileArray


@contextlib.contextmanager
def open_parquet(path: str, inside: str) -> Iterator[Content]:
    """Open its columns; their types are read from the end of the file."""
    with parquet.ParquetFile(path) as file:
        rows, names = file.metadata.num_rows, [field.name for field in file.schema_arrow]
        if twice := [name for place, name in enumerate(names) if name in names[:place]]:
            raise BadData(f"two of its columns are '{twice[0]}'")
        notes = file.schema_arrow.metadata or {}
        units = json.loads(notes.get(b"PANDAS_ATTRS", b"{}")).get("units")
        own = units if isinstance(units, dict) else {}
        yield {
            field.name: FileArray(
                (rows,),
                _dtype(field.type),
                partial(_column, file, field.name),
                units=(field.metadata or {}).get(b"units", b"").decode() or str(own.get(field.name, "")),
            )
            for field in file.schema_arrow
        }


def _column(file: Any, name: str) -> Iterator[tuple[tuple[int, ...], Any]]:
    start = 0
    for batch in file.iter_batches(columns=[name]):
        items = batch.column(0)
        yield (start,), _array(items)
        start += len(items)


def _array(items: Any) -> Any:
    """Return numbers as such; as Python's objects those of which some are missing, and all else."""
    kind, types = items.type, arrow.types
    whole = items.null_count == 0 and (types.is_integer(kind) or types.is_boolean(kind))
    if whole or types.is_floating(kind):
        return items.to_numpy(zero_copy_only=False)
    return numpy.fromiter(items.to_pylist(), object, len(items))


def _dtype(kind: Any) -> numpy.dtype[Any]:
    if arrow.types.is_string(kind) or arrow.types.is_large_string(kind):
        return numpy.dtype("U")
    if arrow.types.is_dictionary(kind):
        return _dtype(kind.value_type)
    try:
        dtype: numpy.dtype[Any] = numpy.dtype(kind.to_pandas_dtype())
    except (NotImplementedError, TypeError):  # of times, zones and structures
        return numpy.dtype(object)
    return dtype
