"""A mail server and a web server of this machine, which keep what they are sent."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword


class Mailbox:
    """The mails that came."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.logins: list[tuple[str, str]] = []
        self.port = 0

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        mail: Any = message_from_bytes(envelope.content, policy=policy.default)
        self.mails.append(mail)
        return "250 OK"

    def authenticate(
        self, server: Any, session: Any, envelope: Any, how: str, given: LoginPassword
    ) -> AuthResult:
        self.logins.append((given.login.decode(), given.password.decode()))
        return AuthResult(success=given.password == b"s3cret-word")

    @property
    def subjects(self) -> list[str]:
        return [mail["Subject"] for mail in self.mails]


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    """A real mail server."""
    box = Mailbox()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        box.port = free.getsockname()[1]
    server = Controller(box, "0.0.0.0", box.port, authenticator=box.authenticate, auth_require_tls=False)
    server.start()
    try:
        yield box
    finally:
        server.stop()


class Posts:
    """What was posted, and how the next ones are answered."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.logins: list[str | None] = []
        """What each showed of itself: its header `Authorization`."""
        self.status = 200
        self.open = threading.Event()
        """Nothing is answered before it is set."""
        self.open.set()
        self.port = 0


@contextmanager
def web_server() -> Iterator[Posts]:
    """A real web server."""
    posts = Posts()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posts.paths.append(self.path)
            posts.logins.append(self.headers["Authorization"])
            posts.bodies.append(json.loads(body))
            posts.open.wait(60)
            self.send_response(posts.status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    posts.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield posts
    finally:
        posts.open.set()
        server.shutdown()
        thread.join()
        server.server_close()
