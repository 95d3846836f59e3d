"""What installed packages add to diel by entry points: modules, and classes of schedulers and searchers."""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from diel.base.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

MODULES = "diel.modules"
WORKFLOWS = "diel.workflows"
SCHEDULERS = "diel.schedulers"
SEARCHERS = "diel.searchers"


@cache
def entry_points_of(group: str) -> "dict[str, EntryPoint]":
    """Return the entry points of a group by name, not imported. Raise UsageError for different ones."""
    from importlib.metadata import entry_points  # here: a run on one machine without a search needs none

    points: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group)):
        other = points.setdefault(point.name, point)
        if other.value != point.value:
            raise UsageError(
                f"two installed packages have a '{point.name}' in {group}: {other.value} of "
                f"{_package(other)} and {point.value} of {_package(point)}; remove one of them"
            )
    return points


def names_in(group: str) -> tuple[str, ...]:
    """Return the names in a group, in alphabetical order."""
    return tuple(entry_points_of(group))


def package_of(group: str, name: str) -> str:
    """Return the package that brings an entry point; empty where there is no such entry point."""
    point = entry_points_of(group).get(name)
    return "" if point is None else _package(point)


def class_named(group: str, name: str, base: type[Any]) -> Any:
    """Return an entry point's class: complete, and derived from `base`. Raise UsageError for an unknown
    name, and for an entry point that cannot be imported or is no such class."""
    point = entry_points_of(group).get(name)
    if point is None:
        hint = did_you_mean(name, names_in(group))
        installed = ", ".join(names_in(group)) or "none: reinstall diel, because even its own are missing"
        raise UsageError(f"no '{name}' in {group}; installed: {installed}{f'; {hint}' if hint else ''}")
    where = f"'{name}' in {group} ({point.value}, of {_package(point)})"
    try:
        entry: Any = import_module(point.module)
        for part in filter(None, point.attr.split(".")):
            entry = getattr(entry, part)
    except (Exception, SystemExit) as error:  # somebody else's code, at its import
        raise UsageError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    if not (isinstance(entry, type) and issubclass(entry, base)):
        expected = f"{base.__module__.rpartition('.')[0]}.{base.__name__}"
        raise UsageError(f"{where} is not a class derived from {expected}")
    lacking = sorted(getattr(entry, "__abstractmethods__", ()))
    if lacking:
        raise UsageError(f"{where} lacks {', '.join(lacking)}: {base.__name__} says what each must do")
    return entry


def _package(point: "EntryPoint") -> str:
    return point.dist.name if point.dist is not None else "an unnamed package"
