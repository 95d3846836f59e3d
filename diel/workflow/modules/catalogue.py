"""Finds modules by name, and loads them in workers.

`simulation.ising` is a file in one of several folders; the first that has it wins. Finding reads
text only: nothing but compiled parts of Python itself is imported before a worker runs the module.
"""

import ast
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from diel.base.errors import HintedError, ModuleError, Problem, UsageError, did_you_mean
from diel.base.extensions import MODULES, entry_points_of
from diel.base.paths import shipped
from diel.base.terms import EXTRAS
from diel.workflow.modules.beside import Importer, Loader, enter, files_of, hidden_package, name_of
from diel.workflow.modules.definition import NameNotFound, find_spec, follow, method_of, read_object
from diel.workflow.modules.signature import Signature, SignatureError, read_signature, read_source
from diel.workflow.modules.sources import Facts, SourceVersion, digest_of_bytes, read_sources

Origin = Literal["workflow", "project", "shipped", "installed"]

_MAX_REFERENCE = 200


class ModuleNotFound(HintedError, UsageError):
    """No module has this name, or its module cannot be used."""


class NotInstalled(ModuleNotFound):
    """This Python's packages lack the module; another Python's may have it."""


class Module(NamedTuple):
    """A Python function that a stage may run."""

    reference: str
    """Its name in a workflow."""
    path: Path
    function: str
    signature: Signature
    import_name: str | None
    """Its import name; None for a file in a `modules/` folder."""
    origin: Origin
    digest: str
    """BLAKE2b of its files' bytes and its package's version; empty if it was not read."""
    folder: Path | None = None
    """The workflow's own, from which a file beside it imports others; None for all else."""
    files: tuple[tuple[str, str], ...] = ()
    """The paths and digests of its own file and of all that this imports of a user's; none of a package."""
    store: str = ""
    """The file that describes the run's copies of these; empty: they are read where they lie."""
    roots: tuple[str, ...] = ()
    """Where its imports were looked for below the workflow's folder when it was found."""

    @property
    def importer(self) -> Importer:
        """Its file, and from where this imports others: for `modules/a/b.py`, `modules/a` and `modules`."""
        folder, name = self.folder, self.import_name
        if folder is None and name is not None:
            return Importer(self.path)
        top = self.path.parents[self.reference.partition(":")[0].count(".")]
        folders = tuple(dict.fromkeys((self.path.parent, top))) if folder is None else (folder,)
        home = str(top.parent if folder is None else folder)
        return Importer(self.path, folders, self.roots, name, home, folder is not None, self.store)

    def facts(self) -> dict[str, Any]:
        """Return its fields as JSON, for a run to keep."""
        folder = None if self.folder is None else str(self.folder)
        own = self._replace(path=str(self.path), folder=folder)._asdict()  # type: ignore[arg-type]
        return {name: own[name] for name in own if name not in ("signature", "store")}

    @property
    def packaged(self) -> bool:
        """Whether it is named by its place in a package that is installed, and not Python's own."""
        return self.origin == "installed" and ":" in self.reference and not _is_pythons(self.reference)


def search_path(workflow_dir: Path, cwd: Path) -> tuple[Path, ...]:
    """Return the `modules/` folders in the order of the search, each once."""
    folders = (workflow_dir / "modules", cwd / "modules", shipped("modules"))
    unique: dict[Path, Path] = {}
    for folder in folders:
        unique.setdefault(folder.resolve(), folder.absolute())
    return tuple(unique.values())


def find(reference: str, folders: Sequence[Path]) -> Module:
    """Return the module of that name. Raise ModuleNotFound."""
    name, function = _split(reference)
    for folder in folders:
        path = folder.joinpath(*name.split(".")).with_suffix(".py")
        if os.path.exists(path) and not os.path.isdir(path):  # a read shows other than ordinary files
            _refuse_private(reference, function)
            module = _usable(reference, path, function, None, _origin(folder, folders))
            _refuse_relative(reference, path)
            return _with_files(module)
    if function and folders and (beside := _beside(reference, name, function, folders[0].parent)):
        return beside
    point = None if function else entry_points_of(MODULES).get(reference)
    if point is not None:
        return _packaged(reference, *_split(point.value))
    if function and (spec := find_spec(name)) is not None:
        home = folders[0].parent if folders else Path()
        is_own = spec.has_location and Importer(home, home=str(home)).covers(spec.origin or "")
        if is_own:  # by PYTHONPATH, or a .pth file
            return _with_files(_installed(reference, name, function)._replace(origin="workflow", folder=home))
        return _packaged(reference, name, function)
    raise _not_found(reference, name, function, folders)


def unread(reference: str) -> Module:
    """Return a function of a package that is not installed here: its parameters show when it is called."""
    name, function = _split(reference)
    signature = Signature(str(function), loose=True)
    return Module(reference, Path(sys.executable), str(function), signature, name, "installed", "")


def _is_pythons(name: str) -> bool:
    return name.partition(":")[0].partition(".")[0] in sys.stdlib_module_names


def _beside(reference: str, name: str, function: str, folder: Path) -> Module | None:
    below = folder.joinpath(*name.split("."))
    places = (below.with_suffix(".py"), below / "__init__.py")
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        return None
    _refuse_private(reference, function)
    sys.path.insert(0, str(folder))
    try:
        module = _installed(reference, name, function)
    except NotInstalled as error:
        raise ModuleNotFound(error.message, error.hint) from None
    finally:
        sys.path.remove(str(folder))
    alone = "." not in name and module.path == path == places[0]
    return _with_files(module._replace(origin="workflow", folder=folder, import_name=None if alone else name))


def _with_files(module: Module) -> Module:
    """Return a module whose digest covers the user's files that it imports."""
    if module.origin != "shipped":
        module = module._replace(roots=tuple(filter(module.importer.covers, sys.path)))
    more = () if module.origin == "shipped" else files_of(module.importer)  # it imports none of its folders
    digests = {str(path): digest_of(path) for path in more}
    files = ((str(module.path), module.digest), *digests.items())
    both = "".join(digest for _, digest in files)
    return module._replace(digest=digest_of_bytes(both.encode()) if more else module.digest, files=files)


def again(facts: Facts, sources: SourceVersion) -> Module:
    """Return a module as a run keeps it, or a package has it now. Raise ModuleNotFound and OSError."""
    reference, path = facts["reference"], Path(facts["path"])
    if not facts["files"]:
        return find(reference, ()) if facts["digest"] else unread(reference)
    signature = read_signature(path, facts["function"], sources.read(str(path)))
    folder = None if facts["folder"] is None else Path(facts["folder"])
    files = tuple((name, digest) for name, digest in facts["files"])
    own = {**facts, "path": path, "folder": folder, "files": files, "roots": tuple(facts.get("roots", ()))}
    return Module(**own, signature=signature, store=sources.place)


def _refuse_private(reference: str, function: str | None) -> None:
    if function is not None and function.startswith("_"):
        hint = "name a function that does not begin with _"
        raise ModuleNotFound(f"module '{reference}': '{function}' is private", hint)


def every(folders: Sequence[Path]) -> Iterator[Module | Problem]:
    """Yield all modules that can be named without their package, and a Problem for an unreadable file."""
    names: set[str] = set()
    for folder in folders:
        for name, path in _files(folder):
            if name not in names:
                names.add(name)
                yield from _all_in_file(name, path, _origin(folder, folders))
    for name, point in entry_points_of(MODULES).items():
        if name not in names:
            try:
                yield _installed(name, *_split(point.value))
            except ModuleNotFound as error:
                yield Problem(f"entry point {name}", 1, 1, "", error.message, error.hint)


def digest_of(path: Path) -> str:
    """Return BLAKE2b of a file's bytes in hexadecimal: time and size do not tell that a file is unchanged."""
    return digest_of_bytes(path.read_bytes())


def _version_of(name: str) -> str:
    """Return the version of the distribution that has a package; empty if none is known."""
    from importlib import metadata  # here: few workflows name a package

    top = name.partition(".")[0]
    try:
        return metadata.version(top)
    except metadata.PackageNotFoundError:
        owners = metadata.packages_distributions().get(top, ())
        return " ".join(f"{owner} {metadata.version(owner)}" for owner in sorted({*owners}))


def _split(reference: str) -> tuple[str, str | None]:
    """Return the dotted name and the function of a reference. Raise ModuleNotFound if it has neither."""
    name, colon, function = reference.partition(":")
    parts = [*name.split("."), *(function.split(".") if colon else [])]
    if len(reference) > _MAX_REFERENCE or not all(part.isidentifier() for part in parts):
        shown = reference if len(reference) <= 80 else reference[:77] + "..."
        hint = "write it as simulation.ising, simulation.ising:function or package.module:function"
        raise ModuleNotFound(f"'{shown}' is not the name of a module", hint)
    return name, function or None


def _not_found(reference: str, name: str, function: str | None, folders: Sequence[Path]) -> ModuleNotFound:
    names = [label for folder in folders for label, _ in _files(folder)] + list(entry_points_of(MODULES))
    alike = (f"did you mean '{other}'?" for other in names if other.split(".")[-1] == name.split(".")[-1])
    near = did_you_mean(name, names) or next(alike, "")  # `ising` is near `simulation.ising`
    places = ", ".join(str(folder) for folder in folders)
    looked = f"looked in {places} and the entry points {MODULES}"
    if function:
        looked += f", and for a package '{name.partition('.')[0]}' (is it installed, or on PYTHONPATH?)"
    kind = NotInstalled if function else ModuleNotFound
    return kind(f"no module '{reference}'", f"{near} {looked}".strip())


def _origin(folder: Path, folders: Sequence[Path]) -> Origin:
    if folder.resolve() == shipped("modules").resolve():
        return "shipped"
    return "workflow" if folder == folders[0] else "project"


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    modules: dict[str, Path] = {}
    for parent, below, files in os.walk(folder):
        below[:] = [name for name in below if name.isidentifier() and not name.startswith("_")]
        place = Path(parent).relative_to(folder).parts
        for file in files:
            stem, suffix = os.path.splitext(file)
            if suffix == ".py" and stem.isidentifier() and not stem.startswith("_"):
                modules[".".join((*place, stem))] = Path(parent, file)
    yield from sorted(modules.items())


def _usable(
    reference: str, path: Path, function: str | None, import_name: str | None, origin: Origin
) -> Module:
    try:
        return _module(reference, path, function or _only_function(reference, path), import_name, origin)
    except SignatureError as error:
        message = f"module '{reference}' ({path}:{error.line}): {error.message}"
        raise ModuleNotFound(message, error.hint) from None


def _refuse_relative(reference: str, path: Path) -> None:
    """Refuse a relative import, which fails when it runs: a file in `modules/` belongs to no package."""
    for node in read_source(path).tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            message = f"module '{reference}' ({path}:{node.lineno}): a file in modules/ belongs to no package"
            raise ModuleNotFound(message, f"write `from {node.module or 'NAME'} import …`, without the dot")


def _only_function(reference: str, path: Path) -> str:
    """Return the function that a file's name means: the one with that name, or the only one."""
    names = read_source(path).modules()
    if path.stem in names:
        return path.stem
    if len(names) == 1:
        return names[0]
    if names:
        listed = ", ".join(f"{reference}:{name}" for name in names)
        raise SignatureError("the file has several modules", hint=f"name one: {listed}")
    hint = "write a function whose name does not begin with _"
    raise SignatureError("the file has no module", hint=hint)


def _all_in_file(name: str, path: Path, origin: Origin) -> Iterator[Module | Problem]:
    try:
        functions = read_source(path).modules()
    except SignatureError as error:
        yield Problem(str(path), error.line, 1, "", error.message, error.hint)
        return
    for function in functions:
        alone = len(functions) == 1 or function == path.stem
        try:
            yield _module(name if alone else f"{name}:{function}", path, function, None, origin)
        except SignatureError as error:
            yield Problem(str(path), error.line, 1, "", error.message, error.hint)


def _module(reference: str, path: Path, function: str, import_name: str | None, origin: Origin) -> Module:
    signature = read_signature(path, function)
    return Module(reference, path, function, signature, import_name, origin, digest_of(path))


def _packaged(reference: str, name: str, function: str | None) -> Module:
    """Return a function of an installed package, which counts by its version too."""
    module = _installed(reference, name, function)
    version = "" if _is_pythons(name) else _version_of(name)
    return module._replace(digest=digest_of_bytes(f"{module.digest} {version}".encode()))


def _installed(reference: str, name: str, function: str | None) -> Module:
    """Return a function of an installed package, read where it is defined: a package may only import it."""
    if function is None:
        raise ModuleNotFound(f"module '{reference}': '{name}' names no function", f"write {name}:function")
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFound(f"module '{reference}': there is no '{name}'", "install the package that has it")
    origin, archive = spec.origin or "", getattr(spec.loader, "archive", "")
    path = Path(archive or origin if spec.has_location else sys.executable)
    digest = digest_of(path) if spec.has_location else digest_of_bytes(sys.version.encode())
    try:
        if origin.endswith(".py") and not archive:
            owner, dot, method = function.partition(".")
            place = follow(name, owner)
            if place is not None:
                defined = f"{place[1]}{dot}{method}"
                return _usable(reference, place[0], defined, name, "installed")._replace(function=function)
            signature = Signature(function, loose=True)
        elif not origin:
            raise ModuleNotFound(
                f"module '{reference}': '{name}' is a directory without code", "name a file in it"
            )
        elif _is_pythons(name):
            signature = read_object(importlib.import_module(name), function)
        else:
            signature = Signature(function, loose=True)
    except NameNotFound as error:
        near = did_you_mean(function, error.names) or "see what the package documents"
        kind = ModuleNotFound if _is_pythons(name) else NotInstalled
        raise kind(f"module '{reference}': '{name}' has no function '{function}'", near) from None
    return Module(reference, path, function, signature, name, "installed", digest)


def load_function(module: Module) -> Callable[..., Any]:
    """Import a module's function in a worker, once for each version of its file. Raise ModuleError."""
    try:
        enter(module.importer)
    except OSError as error:
        raise ModuleError(f"what the run keeps of its sources cannot be read: {error}") from error
    return _load(module.path, module.function, module.import_name, module.digest, module.store)


@lru_cache(maxsize=256)
def _load(path: Path, function: str, import_name: str | None, digest: str, store: str) -> Callable[..., Any]:
    try:
        target = _attribute(_loaded(path, import_name, digest, store), function)
    except (Exception, SystemExit) as error:
        hint = hidden_package(error) or _install_hint(error)
        what = f"cannot be imported: {type(error).__name__}: {error}{hint}"
        raise ModuleError(f"{import_name or path} {what}") from error
    if not callable(target):
        raise ModuleError(f"{import_name or path} has no function '{function}'")
    return cast("Callable[..., Any]", target)


def _attribute(module: Any, name: str) -> Any:
    owner, dot, method = name.partition(".")
    holder = getattr(module, owner, None)
    return method_of(holder, method) if dot and holder is not None else holder


def _loaded(path: Path, import_name: str | None, digest: str, store: str) -> Any:
    if import_name is not None:
        return importlib.import_module(import_name)
    name = name_of(str(path), digest)
    if name in sys.modules:
        return sys.modules[name]
    loader = Loader(name, str(path), read_sources(store).read(str(path)))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module while it is made
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _install_hint(error: BaseException) -> str:
    if not isinstance(error, ModuleNotFoundError):
        return ""
    extra = EXTRAS.get(error.name or "")
    how = f": pip install 'diel[{extra}]'" if extra else ""
    return f"; install {error.name} where the workers run{how}"
