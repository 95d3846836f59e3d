"""The broker's process: `python -m diel.streams.server RUN_DIR [--address ADDRESS]…`.

Every connection is CurveZMQ: encrypted, the broker proven by its public key, the client by the one key pair
that only the run's owner can read. The handshake of any other peer fails.
"""

import argparse
import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import zmq
import zmq.utils.z85

from diel.base.errors import DielError, StreamError
from diel.base.files import put
from diel.base.paths import RunPaths
from diel.streams.broker import Broker
from diel.streams.protocol import (
    MAX_MESSAGE,
    SILENCE,
    Contact,
    Header,
    PeerRequest,
    contact_file,
    pack,
    read_contact,
    unpack,
)

_PATIENCE = 10.0
"""Seconds to wait for the end of the previous broker."""
_TICK = 500
"""Milliseconds between looks at the lease."""


def serve(run_dir: Path, addresses: Sequence[str], silence: float, parent: int | None) -> None:
    """Serve the streams of a run until it is asked to stop. It ends too where another broker took its place,
    where `lease.json` shows no heartbeat for `silence` seconds, and with the process `parent`. Raise
    StreamError where another broker of the run lives, or no port can be had."""
    root = RunPaths(run_dir).streams
    root.mkdir(parents=True, exist_ok=True)
    with _alone(root), zmq.Context() as context:
        context.set(zmq.BLOCKY, False)
        server = _Server(context, root, addresses)
        try:
            server.run(RunPaths(run_dir).lease, silence, parent)
        finally:
            server.close()


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Hold the lock that one broker of a run has; the system lets go of it when a broker is killed. One that
    lives is asked to make room: it ends when it sees that this file was touched."""
    with open(root / "lock", "a", encoding="utf-8") as file:
        give_up, is_asked = time.monotonic() + _PATIENCE, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if not is_asked:
                    os.utime(file.fileno())
                    is_asked = True
                if time.monotonic() > give_up:
                    raise StreamError(f"{root}: another broker of this run is alive") from error
                time.sleep(0.05)
            except OSError:
                break  # a file system without locks: a broker ends when it sees a newer one's file
        yield


class _Server:
    """The sockets of a broker."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], root: Path, addresses: Sequence[str]) -> None:
        self._root = root
        public, secret = zmq.curve_keypair()
        client, client_secret = zmq.curve_keypair()
        self._client = zmq.utils.z85.decode(client)
        self._gate = context.socket(zmq.REP)
        self._gate.bind("inproc://zeromq.zap.01")
        self._router = context.socket(zmq.ROUTER)
        self._router.curve_server = True
        self._router.curve_secretkey = secret
        self._router.zap_domain = b"diel"
        self._router.router_mandatory = True
        self._router.maxmsgsize = MAX_MESSAGE
        self._router.sndhwm = 0  # an answer goes to each request, and a client has few under way
        self._router.heartbeat_ivl = 10_000
        self._router.heartbeat_timeout = 30_000
        port = _bind(self._router, addresses)
        self._broker = Broker(root, self._send)
        self._contact = Contact(
            epoch=_last_epoch(root) + 1,
            host=socket.gethostname(),
            pid=os.getpid(),
            addresses=tuple(addresses),
            port=port,
            key=public.decode(),
            client_key=client.decode(),
            client_secret=client_secret.decode(),
        )
        put(root / "epoch", str(self._contact.epoch))
        # It can never be read by others, nor half.
        put(contact_file(root), json.dumps(asdict(self._contact)), 0o600)

    def _send(self, peer: bytes, header: Header, block: bytes) -> bool:
        frames = (peer, pack(header), block) if block else (peer, pack(header))
        try:
            self._router.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError:
            return False  # the peer is gone
        return True

    def run(self, lease: Path, silence: float, parent: int | None) -> None:
        """Serve until it is asked to stop, replaced, or forgotten."""
        signals: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(self._gate, zmq.POLLIN)
        beat, last_beat, touched = 0.0, time.monotonic(), _stamp(self._root / "lock")
        look_at = last_beat + _TICK / 1000
        while not (self._broker.stopped or signals):
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + _TICK / 1000
                if _stamp(lease) != beat:
                    beat, last_beat = _stamp(lease), time.monotonic()
                if self._is_replaced(touched) or time.monotonic() - last_beat > silence:
                    return
            if parent is not None and os.getppid() != parent:
                return
            ready = dict(poller.poll(_TICK))
            if self._gate in ready:
                self._admit()
            if self._router in ready:
                self._serve()

    def _is_replaced(self, touched: float) -> bool:
        contact = read_contact(self._root)
        newer = contact is None or contact.epoch != self._contact.epoch
        return newer or _stamp(self._root / "lock") != touched

    def _serve(self) -> None:
        """Handle what has come; a peer that speaks otherwise is not answered."""
        for _ in range(100):
            try:
                peer, header, *blocks = self._router.recv_multipart(zmq.NOBLOCK)
                message = unpack(header)
            except zmq.Again:
                return
            except (ValueError, RecursionError):
                continue
            self._broker.serve(PeerRequest(peer, message, blocks[0] if blocks else b""))

    def _admit(self) -> None:
        """Answer libzmq's question (ZAP, rfc.zeromq.org/spec/27) whether a peer may connect."""
        version, request, *_, mechanism, key = self._gate.recv_multipart()
        good = mechanism == b"CURVE" and key == self._client
        why = b"the keys of this run are in its streams/broker.json"
        verdict = (b"200", b"OK") if good else (b"400", why)
        self._gate.send_multipart((version, request, *verdict, b"", b""))

    def close(self) -> None:
        """Let go of the port, after the last answers are out."""
        contact = read_contact(self._root)
        if contact is not None and contact.epoch == self._contact.epoch:
            contact_file(self._root).unlink(missing_ok=True)
        self._broker.close()
        self._router.close(linger=5000)  # answers that are still on their way
        self._gate.close(linger=0)


def _last_epoch(root: Path) -> int:
    last = read_contact(root)
    if last is not None:
        return last.epoch
    try:
        return int((root / "epoch").read_text())
    except (OSError, ValueError):
        return 0


def _bind(router: zmq.Socket[bytes], addresses: Sequence[str]) -> int:
    """Listen on one free port of all addresses. Raise StreamError if there is none."""
    wrong: zmq.ZMQError | None = None
    for _ in range(20):
        try:
            port = router.bind_to_random_port(f"tcp://{addresses[0]}")
            for address in addresses[1:]:
                router.bind(f"tcp://{address}:{port}")
            return port
        except zmq.ZMQError as error:
            wrong = error
            with contextlib.suppress(zmq.ZMQError):
                router.unbind(str(router.get_string(zmq.LAST_ENDPOINT)))
    raise StreamError(f"no port is free on {', '.join(addresses)}: {wrong}")


def _stamp(path: Path) -> float:
    """Return when a file was last written; 0 if it is missing. Open it: else NFS answers from memory."""
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return 0.0


def main() -> int:
    """Serve until asked to stop; return 1, with a message, if it cannot."""
    parser = argparse.ArgumentParser(prog="python -m diel.streams.server", description=__doc__)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--address", action="append", help="where to listen; 127.0.0.1 if not given")
    parser.add_argument("--silence", type=float, default=SILENCE, help="seconds without a controller")
    parser.add_argument("--parent", type=int, help="the process to end with")
    options = parser.parse_args()
    try:
        serve(options.run_dir.resolve(), options.address or ("127.0.0.1",), options.silence, options.parent)
    except (DielError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 (nobody else tells)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
