"""The state of a process that functions change most: put back, so that tasks do not find what others set.

What Python keeps once for a process begins for each task as the import of its file left it, and generators of
random numbers begin from the task's key. Module globals live as long as their worker.
"""

import builtins
import gc  # noqa: F401 - looked up among what is loaded
import os
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from hashlib import blake2b
from importlib.util import resolve_name
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from diel.worker.attempt.import_meter import ImportMeter
from diel.workflow.modules.beside import Loader
from diel.workflow.modules.catalogue import Module, load_function

_SIGNALS = sorted(set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP})
_signal = sys.modules["_signal"]  # `signal` makes an Enum of each number, in ten times the time
_bootstrap: Any = sys.modules["_frozen_importlib"]
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})


class _Setting(NamedTuple):
    """Something that Python, or a library once it is loaded, keeps for a process."""

    library: str
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], object]


def mode_mask() -> int:
    """Return the process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _handle(_: Any, handlers: Sequence[Any]) -> None:
    if threading.current_thread() is threading.main_thread():
        for number, handler in zip(_SIGNALS, handlers, strict=True):
            if handler is not None and _signal.getsignal(number) != handler:
                signal.signal(number, handler)


def _filter(_: Any, filters: list[Any]) -> None:
    warnings.resetwarnings()  # which tells Python that they are others
    warnings.filters[:] = filters  # type: ignore[index]


def _limit(_: Any, limits: Sequence[tuple[int, int]]) -> None:
    for number, (soft, _hard) in zip(_LIMITS, limits, strict=True):
        now, hard = resource.getrlimit(number)
        if number == resource.RLIMIT_NOFILE and now > soft:  # a task's arrays may need them
            continue
        with suppress(ValueError, OSError):  # what was lowered for good stays so
            resource.setrlimit(number, (soft, hard))


_Logger = tuple[int, list[Any], list[Any], bool, bool]
_PLAIN: _Logger = (0, [], [], True, False)
_loggers: dict[str, _Logger] = {}
"""Of each library: its logger as its import left it."""


def _logger(it: Any) -> _Logger:
    return it.level, it.handlers[:], it.filters[:], it.propagate, it.disabled


def _log(logging: Any) -> tuple[dict[str, _Logger], int]:
    """Return all loggers that are not plain."""
    loggers = {"": _logger(logging.root)}
    for name, it in [*logging.root.manager.loggerDict.items()]:
        if type(it) is not logging.PlaceHolder and (
            it.level or it.handlers or it.filters or it.disabled or not it.propagate
        ):
            loggers[name] = _logger(it)
    return loggers, logging.root.manager.disable


def _write_log(logging: Any, state: tuple[dict[str, _Logger], int]) -> None:
    for name in _log(logging)[0].keys() | state[0]:
        logger = logging.getLogger(name)
        then = state[0].get(name) or _loggers.get(name, _PLAIN)
        for handler in logger.handlers:
            if handler not in then[1]:
                handler.close()
        logger.level, logger.handlers[:], logger.filters[:], logger.propagate, logger.disabled = then
    logging.root.manager.disable = state[1]
    logging.root.manager._clear_cache()


def _contexts(decimal: Any) -> tuple[Any, ...]:
    """Return the context that counts, and those that others begin with."""
    return decimal.getcontext(), decimal.DefaultContext, decimal.BasicContext, decimal.ExtendedContext


def _torch(torch: Any) -> tuple[Any, ...]:
    """Return its device, its threads unless they are the task's own, and autocast."""
    device, threads = str(torch.get_default_device()), torch.get_num_threads()
    casts = tuple([(torch.is_autocast_enabled(on), torch.get_autocast_dtype(on)) for on in ("cpu", "cuda")])
    return device, None if str(threads) == os.environ.get("OMP_NUM_THREADS") else threads, casts


def _write_torch(torch: Any, state: tuple[Any, ...]) -> None:
    device, threads, casts = state
    torch.set_default_device(None if device == "cpu" else device)
    torch.set_num_threads(threads or int(os.environ.get("OMP_NUM_THREADS") or 1))
    for on, (is_enabled, dtype) in zip(("cpu", "cuda"), casts, strict=True):
        torch.set_autocast_enabled(on, is_enabled)
        torch.set_autocast_dtype(on, dtype)


_OF_FLOATS = {"x86_64": 0xFFFFFFC0 << 8 * 28 | 0xFFFF, "aarch64": 0xFFFFFFFF}.get(os.uname().machine, 0)
"""The bits of C's `fenv_t` that say how the processor computes, not what was inexact."""


def _floats(ctypes: Any) -> int:
    """Return how the processor rounds, and whether least numbers are zeros."""
    environment = ctypes.create_string_buffer(64)
    ctypes.pythonapi.fegetenv(environment)
    return int.from_bytes(environment.raw, "little") & _OF_FLOATS


def _options(within: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all options of pandas; a look at each by its name takes ten times as long."""
    for key, value in within.items():
        yield from _options(value, f"{name}{key}.") if type(value) is dict else [(name + key, value)]


def _write_pandas(it: Any, state: dict[str, Any]) -> None:
    config = it._config.config
    for name, option in config._registered_options.items():
        then = state.get(name, option.defval)
        if config.get_option(name) != then:
            config.set_option(name, then)


def _access(word: str) -> tuple[Callable[[Any], Any], Callable[[Any, Any], object]]:
    path, _, writer = word.strip("[]").partition("/")
    find, holder = attrgetter(path), attrgetter(path.rpartition(".")[0] or "__class__")
    name, is_contents = path.rpartition(".")[2], word[-1] == "]"

    def read(it: Any) -> Any:
        try:
            value = find(it)
            return value() if writer else value.copy() if is_contents else value
        except (AttributeError, RuntimeError):  # another version, or torch's precision in its newer way
            return ...

    def write(it: Any, then: Any) -> None:
        own = holder(it) if "." in path else it
        contents: Any = getattr(own, name, None)
        if is_contents and isinstance(contents, list):
            contents[:] = then
        elif is_contents:
            for key in contents.keys() - then.keys():
                del contents[key]
            contents.update(then)
        elif writer:
            then is ... or getattr(own, writer)(then)
        elif then is ...:
            vars(own).pop(name, None)
        else:
            setattr(own, name, then)

    return read, write


def _named(line: str) -> _Setting:
    """Return what a library keeps: attributes, what is in `lists[]` and dictionaries, and what one function
    reads and `read/write` another one writes."""
    library, *words = line.split()
    ways = [*map(_access, words)]

    def write(it: Any, values: Sequence[Any]) -> None:
        for (reader, writer), then in zip(ways, values, strict=True):
            if reader(it) != then:
                writer(it, then)

    return _Setting(library, lambda it: tuple([reader(it) for reader, _ in ways]), write)


_KEPT = (
    _Setting("sys", lambda _: mode_mask(), lambda _, mask: os.umask(mask)),
    _Setting("sys", lambda _: (*map(_signal.getsignal, _SIGNALS),), _handle),
    _Setting("sys", lambda _: (*map(resource.getrlimit, _LIMITS),), _limit),
    _Setting("sys", lambda _: warnings.filters[:], _filter),
    _Setting("sys", lambda _: os.sched_getaffinity(0), lambda _, cores: os.sched_setaffinity(0, cores)),
    _Setting(
        "_signal",
        lambda it: it.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda it, mask: it.pthread_sigmask(signal.SIG_SETMASK, mask),
    ),
    _Setting("_locale", lambda it: it.setlocale(it.LC_ALL), lambda it, name: it.setlocale(it.LC_ALL, name)),
    _Setting("ctypes", _floats, lambda it, modes: it.pythonapi.fesetenv(modes.to_bytes(64, "little"))),
    _Setting(
        "decimal",
        lambda it: tuple([context.__reduce__()[1] for context in _contexts(it)]),
        lambda it, all_: [one.__init__(*of) for one, of in zip(_contexts(it), all_, strict=True)],
    ),
    _Setting("logging", _log, _write_log),
    _Setting("gc", lambda it: it.isenabled(), lambda it, on: it.enable() if on else it.disable()),
    _Setting("gc", lambda it: it.get_threshold(), lambda it, sizes: it.set_threshold(*sizes)),
    _Setting("scipy.special", lambda it: it.geterr(), lambda it, ways: it.seterr(**ways)),
    _Setting("sklearn", lambda it: it.get_config(), lambda it, settings: it.set_config(**settings)),
    _Setting("pandas", lambda it: dict(_options(it._config.config._global_config)), _write_pandas),
    _Setting(
        "matplotlib",
        lambda it: {key: value for key, value in dict.items(it.rcParams) if key != "backend"},
        lambda it, values: dict.update(it.rcParams, values),
    ),
    _Setting("matplotlib.pyplot", lambda it: it.get_fignums(), lambda it, _: it.close("all")),
    _Setting("torch", _torch, _write_torch),
    *map(_named, Path(__file__).with_name("settings.txt").read_text("ascii").splitlines()),
)
_LIBRARIES = {setting.library for setting in _KEPT}
State = dict[int, Any]  # by place in `_SETTINGS`
_loaded: dict[int, Any] = {}
"""The library of each setting, once it is loaded."""
_first: State = {}
"""How libraries were when they had just been loaded."""


def _note_loaded(name: str, library: Any) -> None:
    for place, setting in enumerate(_KEPT):
        if setting.library == name:
            with suppress(Exception):  # another version
                _first[place] = setting.read(library)
                _loaded[place] = library


_OF_IMPORTS = (
    _named("os environ[]"),
    _named("sys path[]"),
    _Setting(
        "sys",
        lambda _: {var: value for var, value in copy_context().items() if var.name != "decimal_context"},
        lambda _, values: [var.set(values[var]) for var in values],
    ),
)
"""What else an import may set: each task has its own anyway."""
_SETTINGS = (*_KEPT, *_OF_IMPORTS)
_File = tuple[object, ...]
_Changed = Mapping[_Setting, tuple[Any, Any]]
"""Settings before and after an import."""


class LoadedFunction(NamedTuple):
    """A function, and how its file's import left the process."""

    file: _File
    function: Callable[..., Any]
    state: State
    context: Context
    path: list[str]
    imports: frozenset[str]
    """What its file imported: what that set is in the state, and the file may have set it otherwise."""
    changed: _Changed
    """The process's variables, if its import set any."""

    def call(self, key: str, places: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call it, and put back what it changed. `key` begins the generators of random numbers."""
        try:
            return self.context.copy().run(self._called, key, places, named)
        finally:
            _importer.clear()
            _repeated.clear()
            sys.path[:] = self.path
            _put_back(_before[0])
            _modules[:] = [len(sys.modules)]

    def _called(self, key: str, places: Sequence[Any], named: Mapping[str, Any]) -> Any:
        sys.path[:] = self.path
        # All calls share the object that decimal keeps in this context, and a function may change it.
        if self.state is not _before[0] or _modules != [len(sys.modules)] or "decimal" in sys.modules:
            _put_back(self.state)
        _repeat(self.changed)
        _seed(key)
        _importer.append(self.file)
        _repeated.update(self.imports)
        return self.function(*places, **named)


_imported: dict[_File, tuple[Any, ...]] = {}
_before: list[State] = []
_environ = os.environ
"""Python's own, in whose place a function may put another dictionary."""
_modules: list[int] = []
"""How many modules were loaded when the state was last put back: nothing else changes it between calls."""
_latest: list[tuple[Module, LoadedFunction]] = []
_path: list[str] = []
_importer: list[_File] = []
"""The file that is imported, or whose function runs."""


def load(module: Module) -> LoadedFunction:
    """Load a function; its import draws alike each time. Raises ModuleError, and what the import raises."""
    if _latest and _latest[0][0] is module:  # that of the task before in its bundle
        return _latest[0][1]
    _latest.clear()
    if not _before:
        for name in _LIBRARIES:
            if (library := _library(name)) is not None:
                _note_loaded(name, library)
        _before.append(_read())
        _path.extend(sys.path)
        ImportMeter(_before_import, _after_import)
    file = (module.path, module.import_name, module.digest)
    if file not in _imported:
        _seed(module.digest)
        sys.path[:] = [at for at in sys.path if at in {*_path, *map(str, module.importer.folders)}]
        context, variables = copy_context(), _OF_IMPORTS[0].read(os)
        _importer.append(file)
        try:
            context.run(load_function, module)
            state = context.run(_read)
            state = state if any(_changes(_before[0], state)) else _before[0]
            now = _OF_IMPORTS[0].read(os)
            changed = {_OF_IMPORTS[0]: (variables, now)} if now != variables else {}
            _imported[file] = state, context, sys.path[:], frozenset(_repeated), changed
        finally:
            _importer.clear()
            _repeated.clear()
            _put_back(_before[0])
    _latest.append((module, LoadedFunction(file, load_function(module), *_imported[file])))
    return _latest[0][1]


def _library(name: str) -> Any:
    """Return a library that is loaded; None also while another thread still imports it."""
    module = sys.modules.get(name)
    return None if getattr(getattr(module, "__spec__", None), "_initializing", False) else module


def _read(without: str = "") -> State:
    """Read the state of all libraries that are loaded, but for one that is just being imported."""
    return {
        place: _KEPT[place].read(library)
        for place, library in [*_loaded.items()]
        if not without or _KEPT[place].library.partition(".")[0] != without
    }


def _put_back(state: State) -> None:
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)
    os.environ = _environ  # noqa: B003 - Python's own
    for place, then in _changes(state, _read()):
        _KEPT[place].write(_loaded[place], then)


def _changes(before: State, after: State) -> Iterator[tuple[int, Any]]:
    """Yield the place of each thing that is no longer as it was, and what it was."""
    for place, now in after.items():
        was = before[place] if place in before else _first[place]
        if now != was:
            yield place, was


def _seed_torch(random: Any, number: int) -> None:
    random.default_generator.manual_seed(number)  # torch's own function needs all of torch, which may load
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and getattr(cuda, "is_initialized", bool)():
        cuda.manual_seed_all(number)


_SEEDS: dict[str, Callable[[Any, int], object]] = {
    "random": lambda it, number: it.seed(number),
    "numpy.random": lambda it, number: it.seed(number % 2**32),
    "torch.random": _seed_torch,
}
_number = 0


def _generators() -> dict[str, tuple[Any, Any, Any]]:
    """Return the libraries with generators that are loaded, with what reads and writes the state of each."""
    generators = {}
    for name in _SEEDS:
        if (library := _library(name)) is not None:
            it = getattr(library, "default_generator", library)
            ways = ("getstate", "setstate") if name == "random" else ("get_state", "set_state")
            generators[name] = library, *(getattr(it, way) for way in ways)
    return generators


def _seed(key: str) -> None:
    global _number
    _number = int.from_bytes(blake2b(key.encode(), digest_size=8).digest())
    _draw_from({})


def _draw_from(states: Mapping[str, Any]) -> None:
    """Set the generators of all libraries that are loaded; those without a state begin from the key."""
    for name, (library, _, write) in _generators().items():
        with suppress(ValueError):  # another kind of generator by now
            write(states[name]) if name in states else _SEEDS[name](library, _number)


_import, _import_module = builtins.__import__, _bootstrap._gcd_import
_settings_of: dict[tuple[_File | None, str], _Changed] = {}
"""What the import of a module set, a library's or one of the user's own files for one importer."""
_repeated: set[str] = set()
"""The imports whose settings are set: by the file of the running function, or once for this call."""


def _read_all(without: str) -> State:
    own = enumerate(_OF_IMPORTS, len(_KEPT))
    return _read(without) | {place: of.read(sys.modules[of.library]) for place, of in own}


def _before_import(name: str, by_user: bool) -> tuple[State, dict[str, Any]] | None:
    """Read the state before an import that a user's file asks for, and those of generators."""
    if not (_importer and by_user):
        return None
    return _read_all(name.partition(".")[0]), {of: read() for of, (_, read, _) in _generators().items()}


def _after_import(name: str, module: Any, before: tuple[State, dict[str, Any]] | None) -> None:
    """Put back the generators that an import drew from, or seeded; note what else it set. An import executes
    its file once in a process. What it set is set again for each later task, and each later file, that
    imports it. One that raised, which has no `module`, is executed each time."""
    if before is not None and _importer:
        _draw_from(before[1])
    if module is None:
        return
    logging = sys.modules.get("logging")
    if logging is not None and name not in _loggers and name in logging.root.manager.loggerDict:
        _loggers[name] = _logger(logging.getLogger(name))
    if name in _LIBRARIES:
        _note_loaded(name, module)
    if name in _SEEDS:
        _SEEDS[name](module, _number)
    if before is None or not _importer:
        return
    now = _read_all(name.partition(".")[0])
    if changed := {_SETTINGS[place]: (was, now[place]) for place, was in _changes(before[0], now)}:
        _settings_of[_owner(module), name] = changed
        _repeated.add(name)
        builtins.__import__, _bootstrap._gcd_import = _import_again, _import_module_again


def _owner(module: Any) -> _File | None:
    return _importer[0] if _importer and type(getattr(module, "__loader__", None)) is Loader else None


def _import_again(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    """Import as Python does; set again what the import set when it was executed."""
    module = _import(name, globals, locals, fromlist, level)
    _set_again(name, (globals or {}).get("__package__"), level, fromlist or ())
    return module


def _import_module_again(name: str, package: str | None = None, level: int = 0) -> Any:
    """Import as `importlib.import_module` does, which does not ask `__import__`."""
    module = _import_module(name, package, level)
    _set_again(name, package, level)
    return module


def _set_again(name: str, package: str | None, level: int, children: Sequence[str] = ()) -> None:
    """Set what the imports of a module, the packages above it and its children set, each once in a task."""
    whole = resolve_name("." * level + name, package) if level and package else name
    for name in (*accumulate(whole.split("."), "{}.{}".format), *(f"{whole}.{child}" for child in children)):
        key = _owner(sys.modules.get(name)), name
        if _importer and name not in _repeated and key in _settings_of:
            _repeated.add(name)
            _repeat(_settings_of[key])


def _repeat(changed: _Changed) -> None:
    for setting, (before, after) in changed.items():
        library = sys.modules[setting.library]
        setting.write(library, _again(before, after, setting.read(library)))


def _again(before: Any, after: Any, now: Any) -> Any:
    """Return what is now, changed as `before` was to `after`: the rest is as the task set it."""
    if after == before:
        return now
    if now == before or not type(before) is type(after) is type(now):
        return after
    if type(now) is tuple and len(before) == len(after) == len(now):
        return tuple(map(_again, before, after, now))
    if type(now) is list:
        new = [part for part in after if part not in before]
        rest = [part for part in now if part not in new and (part in after or part not in before)]
        return new + rest if after[: len(new)] == new else rest + new
    if type(now) is not dict:
        return after
    changed = {  # a logger that is not there is plain
        name: _again(before.get(name, _PLAIN), value, now.get(name, _PLAIN))
        for name, value in after.items()
        # A variable that was a default then may be one that this task's stage declares.
        if before.get(name) != value and (name in before or name not in now or type(value) is not str)
    }
    return {name: now[name] for name in now if name in after or name not in before} | changed
