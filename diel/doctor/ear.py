"""Listens for trial jobs that report over TCP; believes only what proves that it knows the token."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socketserver
import threading
from typing import Any, cast

MOST = 1 << 16
"""Bytes of a report."""
PATIENCE = 10.0
"""Seconds that one who connects has to say it."""


class Ear:
    """A port that is open while this is entered, and what was reported there, by pool."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(32)
        self.reports: dict[str, dict[str, Any]] = {}
        self._server = _Server(("0.0.0.0", 0), _Talk)  # jobs come from other nodes
        self._server.ear = self

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> Ear:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def hear(self, challenge: bytes, line: bytes) -> bool:
        """Takes a report in; whether it was proven."""
        proof, _, body = line.rstrip(b"\n").partition(b" ")
        wanted = hmac.new(self.token.encode(), challenge + body, hashlib.sha256).hexdigest().encode()
        if not hmac.compare_digest(proof, wanted):
            return False
        report = json.loads(body)
        self.reports[str(report["pool"])] = report
        return True


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    ear: Ear

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever breaks off, or says what is no report, is left alone."""


class _Talk(socketserver.StreamRequestHandler):
    timeout = PATIENCE

    def handle(self) -> None:
        challenge = secrets.token_hex(32).encode()
        self.wfile.write(challenge + b"\n")
        self.wfile.flush()
        line = self.rfile.readline(MOST)
        if cast(_Server, self.server).ear.hear(challenge, line):
            self.wfile.write(b"ok\n")
