"""The state of a process that functions change most: put back, so that tasks do not find what others set.

What Python keeps once for a process begins for each task as the import of its file left it, and generators of
random numbers begin from the task's key. Module globals live as long as their worker.
"""

import builtins
import gc  # noqa: F401 - looked up among what is loaded
import importlib._bootstrap as bootstrap  # type: ignore[import-not-found]
import os
import resource
import signal
import socket  # noqa: F401
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from hashlib import blake2b
from importlib.util import resolve_name
from itertools import accumulate
from typing import Any, NamedTuple

from diel.attempt.import_meter import ImportMeter
from diel.modules.beside import Loader
from diel.modules.catalogue import Module, load_function

_SIGNALS = sorted(set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP})
_signal = sys.modules["_signal"]  # `signal` makes an Enum of each number, in ten times the time
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})


class _OfProcess(NamedTuple):
    """Something that Python, or a library once it is loaded, keeps for a process."""

    library: str
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], object]
    unset: Callable[[Any], Any] = lambda _: None
    """What it is when the library has just been loaded."""


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


def _log(logging: Any) -> tuple[dict[str, _Logger], int, Any]:
    """Return all loggers that are not plain."""
    loggers = {"": _logger(logging.root)}
    for name, it in [*logging.root.manager.loggerDict.items()]:
        if type(it) is not logging.PlaceHolder and (
            it.level or it.handlers or it.filters or it.disabled or not it.propagate
        ):
            loggers[name] = _logger(it)
    return loggers, logging.root.manager.disable, logging.getLogRecordFactory()


def _write_log(logging: Any, state: tuple[dict[str, _Logger], int, Any]) -> None:
    for name in _log(logging)[0].keys() | state[0]:
        logger = logging.getLogger(name)
        then = state[0].get(name) or _loggers.get(name, _PLAIN)
        for handler in logger.handlers:
            if handler not in then[1]:
                handler.close()
        logger.level, logger.handlers[:], logger.filters[:], logger.propagate, logger.disabled = then
    logging.root.manager.disable = state[1]
    logging.setLogRecordFactory(state[2])
    logging.root.manager._clear_cache()


def _decimal_of_python(it: Any) -> tuple[Any, ...]:
    """Return what a new Python computes decimal numbers with."""
    traps = [it.InvalidOperation, it.DivisionByZero, it.Overflow]
    return 28, it.ROUND_HALF_EVEN, -999999, 999999, 1, 0, [], traps


def _write_default_context(it: Any, values: Sequence[Any]) -> None:
    """Set the context with which new threads begin."""
    context = it.Context(*values)
    for name in ("prec", "rounding", "Emin", "Emax", "capitals", "clamp", "flags", "traps"):
        setattr(it.DefaultContext, name, getattr(context, name))


_OF_DIALECT = (
    *("delimiter", "doublequote", "lineterminator", "quotechar"),
    *("escapechar", "quoting", "skipinitialspace", "strict"),
)
_DIALECTS_OF_PYTHON = {
    "excel": (",", True, "\r\n", '"', None, 0, False, False),
    "excel-tab": ("\t", True, "\r\n", '"', None, 0, False, False),
    "unix": (",", True, "\n", '"', None, 1, False, False),
}


def _dialects(it: Any) -> dict[str, tuple[Any, ...]]:
    dialects = {name: it.get_dialect(name) for name in it.list_dialects()}
    return {name: tuple(getattr(dialect, of) for of in _OF_DIALECT) for name, dialect in dialects.items()}


def _write_dialects(it: Any, dialects: Mapping[str, Sequence[Any]]) -> None:
    for name in it.list_dialects():
        it.unregister_dialect(name)
    for name, values in dialects.items():
        it.register_dialect(name, **dict(zip(_OF_DIALECT, values, strict=True)))


_TORCH = (
    "default_dtype",
    "default_device",
    "num_threads",
    "float32_matmul_precision",
    "deterministic_debug_mode",
)
_FLAGS = ("benchmark", "deterministic", "allow_tf32")
_least = 5e-324


def _setting_of(torch: Any, name: str) -> Any:
    with suppress(RuntimeError):  # a precision that was set in torch's newer way
        return getattr(torch, f"get_{name}")()
    return None


def _torch(torch: Any) -> tuple[Any, ...]:
    """Return its settings, threads unless they are the task's own, and whether least numbers are zeros."""
    dtype, device, threads, *rest = (_setting_of(torch, name) for name in _TORCH)
    own = str(threads) == os.environ.get("OMP_NUM_THREADS")
    flags = (*(getattr(torch.backends.cudnn, name) for name in _FLAGS),)
    modes = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")
    return dtype, str(device), None if own else threads, *rest, flags, modes, _least * 1.0 == 0


def _write_torch(torch: Any, state: tuple[Any, ...]) -> None:
    *set_, flags, (gradient, cpu, cuda), flush = state
    set_[1] = None if set_[1] == "cpu" else set_[1]
    set_[2] = set_[2] or int(os.environ.get("OMP_NUM_THREADS") or 1)
    for name, value in zip(_TORCH, set_, strict=True):
        if value is not None or name == "default_device":
            getattr(torch, f"set_{name}")(value)
    for name, value in zip(_FLAGS, flags, strict=True):
        setattr(torch.backends.cudnn, name, value)
    torch.set_grad_enabled(gradient)
    torch.set_autocast_enabled("cpu", cpu)
    torch.set_autocast_enabled("cuda", cuda)
    torch.set_flush_denormal(flush)


def _settings(it: Any, within: Any = None, name: str = "") -> dict[str, Any]:
    """Return all options of pandas; a look at each by its name takes ten times as long."""
    settings: dict[str, Any] = {}
    for key, value in (it._global_config if within is None else within).items():
        if type(value) is dict:
            settings.update(_settings(it, value, f"{name}{key}."))
        else:
            settings[name + key] = value
    return settings


def _write_pandas(it: Any, state: dict[str, Any]) -> None:
    for name, now in _settings(it).items():
        if name in it._registered_options:
            then = state.get(name, it._registered_options[name].defval)
            if now != then:
                it.set_option(name, then)


def _drawn(it: Any) -> dict[str, Any]:
    """Return how matplotlib draws; its backend is chosen once."""
    return {name: value for name, value in dict.items(it.rcParams) if name != "backend"}


def _attributes(library: str, *names: str) -> _OfProcess:
    """Values that a library keeps under names of its own, which are None or as in this process at first."""
    first = tuple(getattr(sys.modules.get(library), name, None) for name in names)
    return _OfProcess(
        library,
        lambda it: tuple([getattr(it, name) for name in names]),
        lambda it, values: vars(it).update(zip(names, values, strict=True)),
        lambda _: first,
    )


def _pair(library: str, read: str, write: str, *first: Any) -> _OfProcess:
    """Return what one function of a library reads and another one writes."""
    return _OfProcess(
        library,
        lambda it: getattr(it, read)(),
        lambda it, value: getattr(it, write)(value),
        lambda _: next(iter(first), None),
    )


_KEPT = (
    _pair("sys", "getrecursionlimit", "setrecursionlimit"),
    _pair("sys", "get_int_max_str_digits", "set_int_max_str_digits"),
    _OfProcess(
        "_signal",
        lambda it: it.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda it, mask: it.pthread_sigmask(signal.SIG_SETMASK, mask),
    ),
    _OfProcess("sys", lambda it: it.argv[:], lambda it, words: it.argv.__setitem__(slice(None), words)),
    _attributes("sys", "stdin", "stdout", "stderr"),
    _attributes("sys", "excepthook", "unraisablehook", "displayhook"),
    _OfProcess("sys", lambda _: mode_mask(), lambda _, mask: os.umask(mask)),
    _OfProcess("sys", lambda _: (*map(_signal.getsignal, _SIGNALS),), _handle),
    _OfProcess("sys", lambda _: (*map(resource.getrlimit, _LIMITS),), _limit),
    _OfProcess("sys", lambda _: warnings.filters[:], _filter),
    _pair("socket", "getdefaulttimeout", "setdefaulttimeout"),
    _OfProcess("_locale", lambda it: it.setlocale(it.LC_ALL), lambda it, name: it.setlocale(it.LC_ALL, name)),
    _OfProcess(
        "decimal",
        lambda it: it.getcontext().__reduce__()[1],
        lambda it, values: it.setcontext(it.Context(*values)),
        lambda it: it.Context(*_decimal_of_python(it)).__reduce__()[1],
    ),
    _OfProcess(
        "decimal",
        lambda it: it.DefaultContext.__reduce__()[1],
        _write_default_context,
        lambda it: it.Context(*_decimal_of_python(it)).__reduce__()[1],
    ),
    _OfProcess("logging", _log, _write_log, lambda it: ({"": (it.WARNING, *_PLAIN[1:])}, 0, it.LogRecord)),
    _attributes("threading", "excepthook"),
    _attributes("warnings", "showwarning", "formatwarning"),
    _attributes("tempfile", "tempdir"),
    _pair("sys", "gettrace", "settrace"),
    _pair("sys", "getprofile", "setprofile"),
    _OfProcess("sys", lambda _: os.sched_getaffinity(0), lambda _, cores: os.sched_setaffinity(0, cores)),
    _OfProcess("gc", lambda it: it.isenabled(), lambda it, on: it.enable() if on else it.disable()),
    _OfProcess("gc", lambda it: it.get_threshold(), lambda it, sizes: it.set_threshold(*sizes)),
    _pair("_csv", "field_size_limit", "field_size_limit", 131072),
    _OfProcess("_csv", _dialects, _write_dialects, lambda _: _DIALECTS_OF_PYTHON),
    _OfProcess(
        "json.encoder",
        lambda it: (it.JSONEncoder.item_separator, it.JSONEncoder.key_separator),
        lambda it, two: [*map(setattr, (it.JSONEncoder,) * 2, ("item_separator", "key_separator"), two)],
    ),
    _pair("_thread", "stack_size", "stack_size", 0),
    _pair("sys", "getswitchinterval", "setswitchinterval"),
    _pair("calendar", "firstweekday", "setfirstweekday", 0),
    _OfProcess(
        "multiprocessing",
        lambda it: (it.get_start_method(allow_none=True),),
        lambda it, way: it.set_start_method(*way, force=True),
        lambda _: (None,),
    ),
    _OfProcess(
        "numpy.random",
        lambda it: type(it.get_bit_generator()),
        lambda it, kind: it.set_bit_generator(kind()),
        lambda it: it.MT19937,
    ),
    _OfProcess(
        "torch",
        _torch,
        _write_torch,
        lambda it: (it.float32, "cpu", None, "highest", 0, (False, False, True), (True, False, False), False),
    ),
    _OfProcess(
        "sklearn",
        lambda it: it.get_config(),
        lambda it, settings: it.set_config(**settings),
        lambda it: it._config._global_config.copy(),
    ),
    _OfProcess("pandas._config.config", _settings, _write_pandas, lambda _: {}),
    _OfProcess(
        "matplotlib",
        _drawn,
        lambda it, values: dict.update(it.rcParams, values),
        lambda it: {name: value for name, value in it.rcParamsOrig.items() if name != "backend"},
    ),
    _OfProcess("matplotlib.pyplot", lambda it: it.get_fignums(), lambda it, _: it.close("all"), lambda _: []),
)
_LIBRARIES = {setting.library for setting in _KEPT}
State = tuple[Any, ...]


def _write_variables(it: Any, variables: Mapping[str, str]) -> None:
    for name in it.environ.keys() - variables.keys():
        del it.environ[name]
    it.environ.update(variables)


_OF_IMPORTS = (
    _OfProcess("os", lambda it: dict(it.environ), _write_variables),
    _OfProcess("sys", lambda it: it.path[:], lambda it, path: it.path.__setitem__(slice(None), path)),
    _OfProcess("sys", lambda _: dict(copy_context()), lambda _, values: [var.set(values[var]) for var in values]),
)
"""What else an import may set: each task has its own anyway."""
_SETTINGS = (*_KEPT, *_OF_IMPORTS)
_File = tuple[object, ...]


class Loaded(NamedTuple):
    """A function, and how its file's import left the process."""

    file: _File
    function: Callable[..., Any]
    state: State
    context: Context
    path: list[str]
    imports: frozenset[str]
    """What its file imported: what that set is in the state, and the file may have set it otherwise."""
    variables: tuple[dict[str, str], dict[str, str]]
    """The process's variables before and after its import."""

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
        before, after = self.variables
        if before != after:
            _write_variables(os, _again(before, after, dict(os.environ)))
        _seed(key)
        _importer.append(self.file)
        _repeated.update(self.imports)
        return self.function(*places, **named)


_imported: dict[
    _File, tuple[State, Context, list[str], frozenset[str], tuple[dict[str, str], dict[str, str]]]
] = {}
_before: list[State] = []
_modules: list[int] = []
"""How many modules were loaded when the state was last put back: nothing else changes it between calls."""
_latest: list[tuple[Module, Loaded]] = []
_path: list[str] = []
_importer: list[_File] = []
"""The file that is imported, or whose function runs."""


def load(module: Module) -> Loaded:
    """Load a function; its import draws alike each time. Raises ModuleError, and what the import raises."""
    if _latest and _latest[0][0] is module:  # that of the task before in its bundle
        return _latest[0][1]
    _latest.clear()
    if not _before:
        _before.append(_read())
        _path.extend(sys.path)
        ImportMeter(_before_import, _after_import)
    file = (module.path, module.import_name, module.digest)
    if file not in _imported:
        _seed(module.digest)
        sys.path[:] = [at for at in sys.path if at in {*_path, *map(str, module.importer.folders)}]
        context, variables = copy_context(), dict(os.environ)
        _importer.append(file)
        try:
            context.run(load_function, module)
            state = context.run(_read)
            state = state if any(_changes(_before[0], state)) else _before[0]
            both = variables, dict(os.environ)
            _imported[file] = state, context, sys.path[:], frozenset(_repeated), both
        finally:
            _importer.clear()
            _repeated.clear()
            _put_back(_before[0])
    loaded = Loaded(file, load_function(module), *_imported[file])
    _latest.append((module, loaded))
    return loaded


def _library(name: str) -> Any:
    """Return a library that is loaded; None also while another thread still imports it."""
    module = sys.modules.get(name)
    is_partial = getattr(getattr(module, "__spec__", None), "_initializing", False)
    return None if is_partial else module


def _read(without: str = "") -> State:
    """Read the state of all libraries that are loaded, but for one that is just being imported."""
    loaded = {
        name: library
        for name in _LIBRARIES
        if (library := _library(name)) is not None and name.partition(".")[0] != without
    }
    return tuple([of.read(loaded[of.library]) if of.library in loaded else None for of in _KEPT])


def _put_back(state: State) -> None:
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)
    for place, then in _changes(state, _read()):
        _KEPT[place].write(sys.modules[_KEPT[place].library], then)


def _changes(before: State, after: State) -> Iterator[tuple[int, Any]]:
    """Yield the place of each thing that is no longer as it was, and what it was."""
    for place, (setting, then, now) in enumerate(zip(_SETTINGS, before, after, strict=False)):
        if now is not None:
            was = setting.unset(sys.modules[setting.library]) if then is None else then
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


_import, _import_module = builtins.__import__, bootstrap._gcd_import
_settings_of: dict[tuple[_File | None, str], tuple[set[str], dict[_OfProcess, tuple[Any, Any]]]] = {}
"""Of a module, a library's or one of the user's own files for one importer: what its import asked for that
was set already, and what it set: each setting before and after it."""
_names: set[str] = set()
_repeated: set[str] = set()
"""The imports whose settings are set: by the file of the running function, or once for this call."""
_requests: list[set[str]] = []
"""What each of the imports that go on asked for that was set already."""


def _read_all(without: str) -> State:
    return *_read(without), *(setting.read(sys.modules[setting.library]) for setting in _OF_IMPORTS)


def _before_import(name: str, by_user: bool) -> tuple[State, dict[str, Any]] | None:
    """Read the state before an import that a user's file asks for, and those of generators."""
    if not (_importer and by_user):
        return None
    _requests.append(set())
    drawn = {of: read() for of, (_, read, _) in _generators().items()}
    return _read_all(name.partition(".")[0]), drawn


def _after_import(name: str, module: Any, before: tuple[State, dict[str, Any]] | None) -> None:
    """Put back the generators that an import drew from, or seeded; note what else it set. An import executes
    its file once in a process. What it set is set again for each later task, and each later file, that
    imports it. One that raised, which has no `module`, is executed each time."""
    requests = set() if before is None else _requests.pop()
    if before is not None and _importer:
        _draw_from(before[1])
    if module is None:
        return
    logging = sys.modules.get("logging")
    if logging is not None and name not in _loggers and name in logging.root.manager.loggerDict:
        _loggers[name] = _logger(logging.getLogger(name))
    if name in _SEEDS:
        _SEEDS[name](module, _number)
    if before is None or not _importer:
        return
    now = _read_all(name.partition(".")[0])
    changed = {_SETTINGS[place]: (was, now[place]) for place, was in _changes(before[0], now)}
    if changed or requests:
        _settings_of[_owner(module), name] = requests, changed
        _names.add(name)
        _repeated.add(name)
        builtins.__import__, bootstrap._gcd_import = _import_again, _import_module_again


def _owner(module: Any) -> _File | None:
    return _importer[0] if type(getattr(module, "__loader__", None)) is Loader else None


def _import_again(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    """Import as Python does; set again what the import set when it was executed."""
    module = _import(name, globals, locals, fromlist, level)
    if _importer:
        package = (globals or {}).get("__package__") or ""
        whole = resolve_name("." * level + name, package) if level and package else name
        _set_again((*accumulate(whole.split("."), "{}.{}".format), *(f"{whole}.{of}" for of in fromlist or ())))
    return module


def _import_module_again(name: str, package: Any = None, level: int = 0) -> Any:
    """Import as `importlib.import_module` does, which does not ask `__import__`."""
    module = _import_module(name, package, level)
    if _importer:
        whole = resolve_name("." * level + name, package) if level else name
        _set_again(accumulate(whole.split("."), "{}.{}".format))
    return module


def _set_again(imports: Iterable[str]) -> None:
    """Set what the imports of some modules set that are loaded, each once in a task."""
    for name in imports:
        if name not in _names or name not in sys.modules:
            continue
        for requests in _requests:
            requests.add(name)
        if name not in _repeated:
            _repeated.add(name)
            requests, changed = _settings_of.get((_owner(sys.modules[name]), name), (set(), {}))
            _set_again(requests)
            for setting, (before, after) in changed.items():
                library = sys.modules[setting.library]
                setting.write(library, _again(before, after, setting.read(library)))


def _again(before: Any, after: Any, now: Any) -> Any:
    """Return what is now, changed as `before` was to `after`: the rest is as the task set it."""
    if now == before or not type(before) is type(after) is type(now):
        return after
    if type(now) is tuple and len(before) == len(after) == len(now):
        return tuple(map(_again, before, after, now))
    if type(now) is list:
        new = [part for part in after if part not in before]
        rest = [part for part in now if part not in new and (part in after or part not in before)]
        return new + rest if after[: len(new)] == new else rest + new
    if type(now) is not dict:
        return after if after != before else now
    changed = {  # a logger that is not there is plain
        name: _again(before.get(name, _PLAIN), value, now.get(name, _PLAIN))
        for name, value in after.items()
        if not (name in before and value == before[name])
        # A variable that was a default then may be one that this task's stage declares.
        and not (name not in before and name in now and type(value) is str)
    }
    return {name: now[name] for name in now if name in after or name not in before} | changed
