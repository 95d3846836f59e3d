"""`diel view --web`: the page of a run for a browser, by GET alone. No request changes anything."""

import getpass
import gzip
import hmac
import json
import os
import re
import secrets
import select
import shutil
import signal
import socket
import socketserver
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import click

from diel.base.errors import MISTAKE, UsageError
from diel.base.paths import RunPaths
from diel.base.values import format_duration
from diel.ui.page.document import policy
from diel.ui.view.run_watch import LIVE, LivePage

TURN = 0.5
"""Seconds in which the end of the terminal or of the time is noticed."""
SLOW = 30.0
"""Seconds that a client may take for its request."""
_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
"""What a browser asks for at the near end of an SSH tunnel. Any other name was made to point here by a page
that wants to read this one (DNS rebinding)."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Of all answers; the policy of the page itself allows what is in it, by digest."""


def serve(paths: RunPaths, port: int | None, idle: float) -> int:
    """Serve a run's page until the user or the terminal ends it, or nobody has asked for so long. Raise
    UsageError where nothing can listen there, and DielError where a page cannot be made."""
    page = LivePage(paths)
    page.whole()  # what is missing is said before anything listens
    entrance = OwnSocket() if port is None else Port(port)
    try:
        with _until_told() as ended, entrance.listen(handler(page, entrance)) as server:
            lasts = f"Ctrl-C ends it, and {format_duration(idle)} without a request."
            click.echo("\n".join([f"The page of {paths.run_id} is served. {lasts}", *entrance.access()]))
            why = _answer(server, ended, idle)
    finally:
        entrance.remove()
    click.echo(f"ended: {why}", err=True)
    return 0


def _answer(server: Any, ended: list[str], idle: float) -> str:
    """Answer requests; return the reason for the end."""
    server.timeout, server.last_request = TURN, time.monotonic()
    hung_up = select.poll()
    hung_up.register(0, 0)  # of standard input, only its end is told
    while not ended:
        server.handle_request()
        if any(event & (select.POLLHUP | select.POLLERR) for _, event in hung_up.poll(0)):
            return "its terminal or connection is gone"
        if time.monotonic() - server.last_request > idle:
            return f"no request for {format_duration(idle)}"
    return ended[0]


@contextmanager
def _until_told() -> Iterator[list[str]]:
    """Note a signal that asks for the end; a signal that is ignored (nohup) stays ignored."""
    ended: list[str] = []

    def note(number: int, frame: FrameType | None) -> None:
        ended.append(signal.Signals(number).name)

    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def handler(page: LivePage, entrance: "OwnSocket | Port") -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"page": page, "entrance": entrance})


class _Handler(BaseHTTPRequestHandler):
    page: ClassVar[LivePage]
    entrance: "ClassVar[OwnSocket | Port]"
    protocol_version = "HTTP/1.1"
    server_version = "diel"
    sys_version = ""
    timeout = SLOW

    def do_GET(self) -> None:
        if not _HOST.fullmatch(self.headers.get("Host", "")):
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "open it as localhost")
            return
        url = urlsplit(self.path)
        query, authorized = parse_qs(url.query), self.headers.get("Authorization", "").partition(" ")[2]
        if self.entrance.token and self._has(query.get("token", [""])[0]) and url.path == "/":
            self._welcome()
        elif self.entrance.token and not any(map(self._has, (self._cookie(), authorized))):
            self._refuse(HTTPStatus.FORBIDDEN, "it takes the address with the token that `diel view` printed")
        elif url.path == "/":
            body = self.page.whole().encode("utf-8", "replace")
            self._send("text/html; charset=utf-8", body, f"{policy(LIVE)}; frame-ancestors 'none'")
        elif url.path == "/delta":
            since = query.get("since", [""])[0]
            data = self.page.delta(int(since) if since.isdecimal() and len(since) < 16 else -1)
            self._send("application/json", json.dumps(data, allow_nan=False).encode())
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is the page, /, and no other")

    def _only_get(self) -> None:
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "this only answers GET")

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _only_get

    def _has(self, shown: str) -> bool:
        """Return whether this is the token; that takes as long for a wrong one, however wrong."""
        return hmac.compare_digest(shown.encode("utf-8", "surrogateescape"), self.entrance.token.encode())

    @property
    def _name(self) -> str:
        """The name of the cookie: browsers share cookies among the ports of a host."""
        return f"diel-view-{self.entrance.number}"

    def _cookie(self) -> str:
        morsel = None
        with suppress(CookieError):
            morsel = SimpleCookie(self.headers.get("Cookie", "")).get(self._name)
        return "" if morsel is None else morsel.value

    def _welcome(self) -> None:
        """Take the token out of the address, where histories keep it, and into a cookie."""
        self.server.last_request = time.monotonic()  # type: ignore[attr-defined]
        cookie = f"{self._name}={self.entrance.token}; HttpOnly; SameSite=Strict; Path=/"
        self._reply(HTTPStatus.SEE_OTHER, {"Location": "/", "Set-Cookie": cookie}, b"")

    def _send(self, kind: str, body: bytes, may: str = "") -> None:
        self.server.last_request = time.monotonic()  # type: ignore[attr-defined]
        headers = {"Content-Type": kind}
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = gzip.compress(body, 5), "gzip"
        self._reply(HTTPStatus.OK, headers, body, may)

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        """Answer with an error in plain text. Nothing of the request is repeated, its body is not read."""
        body = f"{status.value} {status.phrase}: {why}\n".encode()
        self.close_connection = True
        headers = {"Allow": "GET"} if status is HTTPStatus.METHOD_NOT_ALLOWED else {}
        headers |= {"Content-Type": "text/plain; charset=utf-8", "Connection": "close"}
        self._reply(status, headers, body)

    def _reply(self, status: HTTPStatus, headers: Mapping[str, str], body: bytes, may: str = "") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers(may)
        if self.command != "HEAD":
            self.wfile.write(body)

    def end_headers(self, may: str = "") -> None:
        for name, value in (_HEADERS | ({"Content-Security-Policy": may} if may else {})).items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *words: Any) -> None:
        """Print nothing: the terminal is the user's."""


LOCAL_PORT = 8080
"""The port on the user's own machine in the line that is printed."""
LONGEST = 100
"""Bytes of a socket's path; Linux takes 107 (unix(7))."""
LOOPBACK = "127.0.0.1"


class _Threads(socketserver.ThreadingMixIn):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error of diel. A browser that goes away is none."""
        error = sys.exception()
        if not isinstance(error, OSError):
            click.echo(f"{MISTAKE}: {type(error).__name__}: {error}", err=True)


class _UnixServer(_Threads, socketserver.UnixStreamServer):
    pass


class _PortServer(_Threads, socketserver.TCPServer):
    allow_reuse_address = True


class OwnSocket:
    """A Unix socket that its owner alone can open: made with its mode, in a directory nobody else enters."""

    token, number = "", 0
    """What a request must show: nothing, as the place itself keeps others out."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="diel-view-", dir=_private_folder()))  # of mode 0700
        self.path = self._folder / "view.sock"

    def listen(self, handler: type[socketserver.BaseRequestHandler]) -> socketserver.BaseServer:
        before = os.umask(0o177)  # the mode is 0600 from the beginning, and not only after a chmod
        try:
            server = _UnixServer(str(self.path), handler)
        except OSError as error:
            raise UsageError(f"cannot listen on {self.path}: {error.strerror}") from error
        finally:
            os.umask(before)
        info = os.lstat(self.path)
        if not stat.S_ISSOCK(info.st_mode) or stat.S_IMODE(info.st_mode) != 0o600:
            server.server_close()
            where = "set TMPDIR or XDG_RUNTIME_DIR to a disk of this machine"
            raise UsageError(f"{self.path}: this file system does not keep the mode of a socket; {where}")
        return server

    def access(self) -> list[str]:
        return [
            "On your own machine:",
            f"    ssh -N -L {LOCAL_PORT}:{self.path} {_login()}",
            f"and open http://localhost:{LOCAL_PORT}/",
        ]

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class Port:
    """A port of the loopback interface, which every user here can reach: so a token is asked for."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.token = secrets.token_urlsafe(32)

    def listen(self, handler: type[socketserver.BaseRequestHandler]) -> socketserver.BaseServer:
        try:
            server = _PortServer((LOOPBACK, self.number), handler)
        except OSError as error:
            again = "choose another, or 0 for any that is free"
            raise UsageError(f"cannot listen on port {self.number}: {error.strerror}; {again}") from error
        self.number = server.server_address[1]
        return server

    def access(self) -> list[str]:
        return [
            "Here, or on your own machine after",
            f"    ssh -N -L {self.number}:{LOOPBACK}:{self.number} {_login()}",
            f"open http://localhost:{self.number}/?token={self.token}",
        ]

    def remove(self) -> None:
        pass


def _private_folder() -> Path:
    """Return the user's runtime directory if it is theirs alone, else the place of temporary files."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or "/nonexistent")
    try:
        info = os.lstat(runtime)
        theirs = stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o077
    except OSError:
        theirs = False
    places = (runtime if theirs else Path("/tmp"), Path(tempfile.gettempdir()))
    short = (folder for folder in places if len(os.fsencode(folder)) < LONGEST - 40)
    return next((folder for folder in short if folder.is_dir() and os.access(folder, os.W_OK)), Path("/tmp"))


def _login() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"
