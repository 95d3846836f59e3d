"""The state of a process that a function can change: put back, so that no task depends on what ran before it.

Functions share their worker with what it imported: module globals live as long as it does. What Python keeps
once for a process begins for each task as the import of its file left it, and generators of random numbers
begin from the task's key, so that what draws without a seed gives the same again.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from hashlib import blake2b
from typing import Any, NamedTuple

from diel.attempt.imported import Weighing
from diel.modules.catalogue import Module, load_function

_SIGNALS = sorted(set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP})
_signal = sys.modules["_signal"]  # `signal` makes an Enum of each number, in ten times the time
_LIMITS = tuple(getattr(resource, f"RLIMIT_{name}") for name in ("AS", "CORE", "DATA", "FSIZE", "STACK"))


class _OfProcess(NamedTuple):
    """Something that Python, or a library once it is loaded, keeps for a process."""

    library: str
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], object]
    unset: Callable[[Any], Any] = lambda _: None
    """What it is when the library has just been loaded."""


def _umask(_: Any) -> int:
    mask = os.umask(0o077)  # it can only be read by setting it
    os.umask(mask)
    return mask


def _handle(_: Any, handlers: list[Any]) -> None:
    if threading.current_thread() is threading.main_thread():
        for number, handler in zip(_SIGNALS, handlers, strict=True):
            if handler is not None and _signal.getsignal(number) != handler:
                signal.signal(number, handler)


def _filter(_: Any, filters: list[Any]) -> None:
    warnings.resetwarnings()  # which tells Python that they are others
    warnings.filters[:] = filters  # type: ignore[index]


def _limit(_: Any, limits: list[tuple[int, int]]) -> None:
    for number, (soft, _hard) in zip(_LIMITS, limits, strict=True):
        with suppress(ValueError, OSError):  # what was lowered for good stays so
            resource.setrlimit(number, (soft, resource.getrlimit(number)[1]))


def _open(_: Any, files: tuple[Any, Any, Any]) -> None:
    sys.stdin, sys.stdout, sys.stderr = files


def _log(logging: Any, state: tuple[list[Any], int, int]) -> None:
    for handler in logging.root.handlers:
        if handler not in state[0]:
            handler.close()
    logging.root.handlers[:], logging.root.level, logging.root.manager.disable = state
    logging.root.manager._clear_cache()


def _torch(torch: Any) -> tuple[Any, bool, int | None]:
    """Its default type, gradient mode, and threads where these are not the task's own."""
    threads = torch.get_num_threads()
    own = str(threads) == os.environ.get("OMP_NUM_THREADS")
    return torch.get_default_dtype(), torch.is_grad_enabled(), None if own else threads


def _write_torch(torch: Any, state: tuple[Any, bool, int | None]) -> None:
    torch.set_default_dtype(state[0])
    torch.set_grad_enabled(state[1])
    torch.set_num_threads(state[2] or int(os.environ.get("OMP_NUM_THREADS") or 1))


_KEPT = (
    _OfProcess("sys", lambda it: it.getrecursionlimit(), lambda it, limit: it.setrecursionlimit(limit)),
    _OfProcess(
        "sys", lambda it: it.get_int_max_str_digits(), lambda it, most: it.set_int_max_str_digits(most)
    ),
    _OfProcess(
        "_signal",
        lambda it: it.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda it, mask: it.pthread_sigmask(signal.SIG_SETMASK, mask),
    ),
    _OfProcess("sys", lambda it: it.argv[:], lambda it, words: it.argv.__setitem__(slice(None), words)),
    _OfProcess("sys", lambda it: (it.stdin, it.stdout, it.stderr), _open),
    _OfProcess("sys", _umask, lambda _, mask: os.umask(mask)),
    _OfProcess("sys", lambda _: [*map(_signal.getsignal, _SIGNALS)], _handle),
    _OfProcess("sys", lambda _: [*map(resource.getrlimit, _LIMITS)], _limit),
    _OfProcess("sys", lambda _: warnings.filters[:], _filter),
    _OfProcess("sys", lambda _: socket.getdefaulttimeout(), lambda _, limit: socket.setdefaulttimeout(limit)),
    _OfProcess("_locale", lambda it: it.setlocale(it.LC_ALL), lambda it, name: it.setlocale(it.LC_ALL, name)),
    _OfProcess(
        "decimal",
        lambda it: it.getcontext().__reduce__()[1],
        lambda it, values: it.setcontext(it.Context(*values)),
        lambda it: it.Context().__reduce__()[1],
    ),
    _OfProcess(
        "logging",
        lambda it: (it.root.handlers[:], it.root.level, it.root.manager.disable),
        _log,
        lambda it: ([], it.WARNING, 0),
    ),
    _OfProcess("torch", _torch, _write_torch, lambda it: (it.float32, True, None)),
)
State = tuple[Any, ...]


class Loaded(NamedTuple):
    """A function, and how its file's import left the process."""

    function: Callable[..., Any]
    state: State
    context: Context
    path: list[str]

    def call(self, key: str, places: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call it, and put back what it changed. `key` begins the generators of random numbers."""
        try:
            return self.context.copy().run(self._called, key, places, named)
        finally:
            sys.path[:] = self.path
            _put_back(_before[0])

    def _called(self, key: str, places: Sequence[Any], named: Mapping[str, Any]) -> Any:
        sys.path[:] = self.path
        _put_back(self.state)
        _seed(key)
        return self.function(*places, **named)


_imported: dict[tuple[object, ...], tuple[State, Context, list[str]]] = {}
"""By file: how its import left the process."""
_before: list[State] = []
"""The state of this process before its first function."""
_path: list[str] = []


def load(module: Module) -> Loaded:
    """Load a function; generators of random numbers that its import draws from begin alike each time.

    Raises ModuleError as `load_function` does, and what else the import raises.
    """
    if not _before:
        _before.append(_read())
        _path.extend(sys.path)
        Weighing(_seed_late)
    file = (module.path, module.import_name, module.digest)
    if file not in _imported:
        _seed(module.digest)
        sys.path[:] = [one for one in sys.path if one in {*_path, *map(str, module.folders)}]
        context = copy_context()
        try:
            context.run(load_function, module)
            _imported[file] = context.run(_read), context, sys.path[:]
        finally:
            _put_back(_before[0])
    return Loaded(load_function(module), *_imported[file])


def _read() -> State:
    return tuple(one.read(sys.modules[one.library]) if one.library in sys.modules else None for one in _KEPT)


def _put_back(state: State) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    for one, now, then in zip(_KEPT, _read(), state, strict=True):
        if now is not None and now != (then := one.unset(sys.modules[one.library]) if then is None else then):
            one.write(sys.modules[one.library], then)


# --- random numbers -----------------------------------------------------------------------------------


def _seed_torch(random: Any, number: int) -> None:
    random.default_generator.manual_seed(
        number
    )  # torch's own function needs all of torch, which may be loading
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and getattr(cuda, "is_initialized", bool)():
        cuda.manual_seed_all(number)


_GENERATORS: dict[str, Callable[[Any, int], object]] = {
    "random": lambda it, number: it.seed(number),
    "numpy.random": lambda it, number: it.seed(number % 2**32),
    "torch.random": _seed_torch,
}
_number = 0


def _seed(key: str) -> None:
    global _number
    _number = int.from_bytes(blake2b(key.encode(), digest_size=8).digest())
    for name, seed in _GENERATORS.items():
        if name in sys.modules:
            seed(sys.modules[name], _number)


def _seed_late(name: str, module: Any) -> None:
    """Seeds the generator of a library that a function imports only when it runs."""
    if name in _GENERATORS:
        _GENERATORS[name](module, _number)
