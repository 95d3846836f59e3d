"""`diel stream operate`: a process that stays, and does one operation for each line of its standard input."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from diel.errors import StreamBroken, StreamEnd, StreamError, UsageError

if TYPE_CHECKING:
    from diel.streams.client import TupleSpace
    from diel.streams.ends import Consumer, Producer

KNOWN = {
    "put": ({"stream", "item"}, {"key", "value"}),
    "get": ({"stream"},),
    "commit": ({"stream"},),
    "read": ({"key"},),
    "take": ({"key"},),
}
"""What each operation needs beside `do`."""
_EXPECTED = (
    'expected {"do": "put", "stream": NAME, "item": …}, {"do": "get", "stream": NAME}, '
    '{"do": "commit", "stream": NAME}, {"do": "put", "key": […], "value": …}, '
    '{"do": "read", "key": […]} or {"do": "take", "key": […]}'
)


class Operations:
    """The ends that a task has opened so far; each is opened when it is first named."""

    def __init__(
        self,
        producer: Callable[[str], Producer],
        consumer: Callable[[str], Consumer],
        space: Callable[[], TupleSpace],
    ) -> None:
        self._open = {"put": producer, "get": consumer}
        self._ends: dict[tuple[str, str], Any] = {}
        self._open_space = space
        self._space: TupleSpace | None = None

    def serve(self, lines: Iterable[str], tell: Callable[[dict[str, Any]], None]) -> int:
        """Does what the lines say, and tells an answer for each; the exit code: 1 if one could not be done."""
        code = 0
        try:
            for line in filter(str.strip, lines):
                answer = self._answer(line)
                code = 1 if "error" in answer else code
                tell(answer)
        except BaseException:
            self._leave(failed=True)
            raise
        self._leave(failed=bool(code))
        return code

    def _answer(self, line: str) -> dict[str, Any]:
        try:
            return self._do(_read(line))
        except StreamEnd:
            return {"end": True}
        except TimeoutError:
            return {"timeout": True}
        except StreamBroken as error:
            return {"broken": True, "error": str(error)}
        except (StreamError, UsageError) as error:
            return {"error": str(error)}

    def _do(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        what, timeout = asked["do"], asked.get("timeout")
        if "stream" not in asked:
            space = self._space = self._space or self._open_space()
            if what == "put":
                space.put(asked["key"], asked["value"])
                return {"done": True}
            key, value = (space.read if what == "read" else space.take)(asked["key"], timeout)
            return {"key": key, "value": value}
        end = self._end("put" if what == "put" else "get", asked["stream"])
        if what == "get":
            return {"item": end.get(timeout)}
        if what == "put":
            end.put(asked["item"], timeout)
        else:
            end.commit()
        return {"done": True}

    def _end(self, role: str, name: str) -> Any:
        key = (role, name)
        if key not in self._ends:
            self._ends[key] = self._open[role](name)
        return self._ends[key]

    def _leave(self, *, failed: bool) -> None:
        with contextlib.ExitStack() as stack:  # one that cannot be closed does not keep the others open
            if failed:
                stack.enter_context(contextlib.suppress(StreamError))
            for (role, _), end in self._ends.items():
                stack.callback(end.give_up if failed and role == "put" else end.close)


def _read(line: str) -> Mapping[str, Any]:
    """An operation. Raises UsageError for what is none."""
    try:
        asked = json.loads(line)
        fits = any(asked.keys() - {"do", "timeout"} == needs for needs in KNOWN[asked["do"]])
        seconds = asked.get("timeout")
        fits = fits and (seconds is None or (isinstance(seconds, int | float) and seconds >= 0))
    except (ValueError, AttributeError, KeyError, TypeError):
        fits = False
    if not fits:
        raise UsageError(f'{_EXPECTED}, and for a time limit "timeout": SECONDS; found {line.strip()[:200]}')
    found: Mapping[str, Any] = asked
    return found
