"""The line between a worker and its controller: packed bundles go one way, packed reports the other.

Each is eight bytes that give its length, then itself. On one machine the server of the workers holds a pipe,
and closes it when the controller is gone; a worker in a block has none, and goes on without a controller.
"""

import select
from socket import socket

LENGTH = 8
CHUNK = 1024 * 1024
SPENT = b" spent"
"""The end of a report after which its worker takes no other bundle."""


def send(end: socket, packed: bytes) -> None:
    """Send it. Raise OSError if nobody holds the other end."""
    end.sendall(len(packed).to_bytes(LENGTH) + packed)


def is_readable(number: int, seconds: float = 0.0) -> bool:
    """Tell whether a file has something to read, or ends; `select` refuses numbers above 1023."""
    watch = select.poll()
    watch.register(number, select.POLLIN)
    return bool(watch.poll(seconds * 1000))


def receive(end: socket, lifeline: int) -> bytes:
    """Read what comes next. Raises EOFError once `lifeline` is readable: a child may hold the other end."""
    watch = select.poll()
    watch.register(end, select.POLLIN)
    watch.register(lifeline, select.POLLIN)

    def read(size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            ready = [number for number, _ in watch.poll()]
            chunk = end.recv(min(size - len(data), CHUNK)) if end.fileno() in ready else b""
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)

    return read(int.from_bytes(read(LENGTH)))


_pipe: int | None = None


def hold(pipe: int) -> None:
    """Make the pipe this worker's."""
    global _pipe
    _pipe = pipe


def is_cut() -> bool:
    """Return whether the controller is gone."""
    return _pipe is not None and is_readable(_pipe)
