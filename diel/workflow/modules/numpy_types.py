"""NumPy's arrays and scalars as types of parameters: made of JSON's values where they hold these exactly."""

import typing
from types import UnionType
from typing import Annotated, Any, NamedTuple

_SCALARS = {"float": float, "int": int, "uint": int, "bool": bool, "str": str}
_GENERAL = {"floating": "float64", "integer": "int64", **dict.fromkeys(("", "Any", "number", "generic"))}
"""Types of NumPy that are many, and the one that is made."""
_FITTING: dict[type, str] = {bool: "b", int: "iufc", float: "fc", str: "U"}
"""The kinds of NumPy's dtypes that hold values of a type."""


class ToNumpy(NamedTuple):
    """Make a list or a number one of NumPy's; without NumPy, which who calls the function has, it stays."""

    dtype: str | None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # here: as in `fitted`

        def make(value: Any, fits: Any) -> Any:
            made = fits(value)
            return self(value if isinstance(made, float) else made)  # as it was: a float may have lost digits

        return core_schema.no_info_wrap_validator_function(make, handler(source))

    def __call__(self, value: Any) -> Any:
        try:
            import numpy  # here: few parameters need it

            array, items = numpy.array(value, self.dtype), numpy.array(value, object)
            pairs = zip(array.astype(object).flat, items.flat, strict=True)
            kinds = (_FITTING.get(type_, "") for type_ in {*map(type, items.flat)})
            if all(array.dtype.kind in kind for kind in kinds) and all(a == b or b != b for a, b in pairs):
                return array if isinstance(value, list) else array[()]
        except ImportError:
            return value
        except (ValueError, TypeError, OverflowError):  # rows of several lengths, a text, too large a number
            pass
        raise ValueError(f"expected what numpy.{self.dtype or 'ndarray'} holds exactly")


def numpy_type(name: str, of: str = "") -> Any:
    """Return the type for a name of NumPy, and that of an array's items; None for what is none of them."""
    short = (_GENERAL.get(name) or name).rstrip("0123456789_")
    kind, dtype = (list, of) if name == "ndarray" else (_SCALARS.get(short), name)
    return kind and Annotated[kind, ToNumpy(_GENERAL.get(dtype, dtype))]


def followed(kind: Any) -> Any:
    """Return a type with what pydantic cannot read in words of its own: NumPy's, and typing's TypedDict."""
    origin, items = typing.get_origin(kind) or kind, typing.get_args(kind)
    if typing.is_typeddict(kind):
        import typing_extensions  # here: pydantic brings it, for Python 3.11

        fields = typing.get_type_hints(kind, include_extras=True)
        for name, field in fields.items():
            needed = typing.Required if name in kind.__required_keys__ else typing.NotRequired
            own = typing.get_origin(field) in (typing.Required, typing.NotRequired)
            fields[name] = followed(field if own else needed[field])
        return typing_extensions.TypedDict(kind.__name__, fields)  # type: ignore[operator]
    if getattr(origin, "__module__", "") == "numpy":
        of = (typing.get_args(items[-1]) or items)[-1] if items else None
        of = typing.get_origin(of) or of
        return numpy_type(origin.__name__, of.__name__ if isinstance(of, type) else "") or kind
    if not items:
        return kind
    if hasattr(kind, "__metadata__"):
        return Annotated[(followed(items[0]), *kind.__metadata__)]
    inner = tuple(map(followed, items))
    return (typing.Union if origin is UnionType else origin)[inner if len(inner) != 1 else inner[0]]


def makes_numpy(kind: Any) -> bool:
    """Return whether values of such a type have arrays or scalars of NumPy."""
    inner = (*typing.get_args(kind), *getattr(kind, "__annotations__", {}).values())
    return isinstance(kind, ToNumpy) or any(map(makes_numpy, inner))
