"""The health of a service, asked on the node that it runs on: no network lies between."""

from __future__ import annotations

import http.client
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from diel.services.client import in_url

if TYPE_CHECKING:
    from diel.spec import Ready

LOOKED_AT = 1 << 20
"""Bytes of what it printed last in which the text is looked for that says it is ready."""


@dataclass(frozen=True)
class Line:
    """Where one start of a service listens, and what it must be shown."""

    host: str
    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def is_well(self, ready: Ready, patience: float) -> bool:
        """Whether it answers as it promised to, within so many seconds."""
        if ready.tcp:
            try:
                with socket.create_connection((self.host, self.port), patience):
                    return True
            except OSError:
                return False
        return 200 <= self._ask("GET", str(ready.http), None, patience)[0] < 400

    def send(self, path: str, body: bytes, patience: float) -> str:
        """Sends newer inputs; returns what is wrong, or nothing."""
        code, said = self._ask("POST", path, body, patience)
        return "" if 200 <= code < 400 else f"{path} answered {code or 'nothing'}: {said[:200]}"

    def _ask(self, method: str, path: str, body: bytes | None, patience: float) -> tuple[int, str]:
        """The code and the beginning of the answer; 0 and why, where there was none."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=patience)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, in_url(path), body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(65536).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()


class Printed:
    """What a service prints from now on, on this process's stdout and stderr."""

    def __init__(self) -> None:
        self._before = _sizes()

    def holds(self, text: str) -> bool:
        """Whether the end of it has a text."""
        printed = b""
        for number, size, begin in zip((1, 2), _sizes(), self._before, strict=True):
            first = max(begin, size - LOOKED_AT)
            printed += os.pread(number, max(0, size - first), first)
        return text in printed.decode("utf-8", "replace")


def _sizes() -> tuple[int, int]:
    return os.fstat(1).st_size, os.fstat(2).st_size
