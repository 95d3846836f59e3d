"""The wire of one process to its broker: one socket, and the one thread that touches it.

Requests may be asked by any thread. When the broker goes, the wire looks into `broker.json` for the next one
and asks again all that was not answered, in order: every request can be asked twice.
"""

import contextlib
import os
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import zmq
from zmq.utils.monitor import parse_monitor_message

from diel.base.errors import StreamError, StreamLost
from diel.streams.protocol import Contact, Header, contact_file, pack, read_contact, unpack

Done = Callable[[Header, bytes], None]
"""Called in the wire's thread with an answer."""
_LOST = (
    zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
_LOOK = 0.05
"""Seconds between looks for a new broker."""
_LOOK_MOST = 1.0
TURN = 0.5
"""Seconds between looks whether the broker is there, while waiting."""

Pump = Callable[[float], bool]
"""Called in the wire's thread: sends what is due now; whether there is more to send in a millisecond."""


class Wire:
    """Sends requests, hands out answers. `patience`: seconds for which a lost broker is waited for."""

    def __init__(self, root: Path, patience: float) -> None:
        self.root = root
        self.patience = patience
        self._context = zmq.Context()
        self._context.set(zmq.BLOCKY, False)
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None
        self.contact: Contact | None = None
        """The current broker."""
        self._poller = zmq.Poller()
        self._lock = threading.Lock()
        self._ids = 0
        self._asked: deque[tuple[int, bytes, bytes, Done]] = deque()
        self._open: dict[int, tuple[bytes, bytes, Done]] = {}
        self._pumps: set[Pump] = set()
        self._lost_since: float | None = time.monotonic()
        self._look_at = 0.0
        self._look_wait = _LOOK
        self._ended = False
        self.broken: BaseException | None = None
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._woken = False
        self._poller.register(self._wake_read, zmq.POLLIN)
        self._thread = threading.Thread(target=self._run, name="diel-streams", daemon=True)
        self._thread.start()

    def ask(self, header: Header, block: bytes = b"", done: Done = lambda header, block: None) -> int:
        """Send a request soon; return its number."""
        with self._lock:
            self._ids += 1
            number = self._ids
            self._asked.append((number, pack({"id": number, **header}), block, done))
        self._wake()
        return number

    def call(self, header: Header) -> Header:
        """Send a request and waits for its answer, as long as a broker is there. Raise StreamError where the
        broker refuses, StreamLost where it is gone for longer than `patience`."""
        answer = self.call_within(header, b"", None)
        assert answer is not None
        return answer[0]

    def call_within(self, header: Header, block: bytes, timeout: float | None) -> tuple[Header, bytes] | None:
        """As `call`; None if no answer came in `timeout` seconds and the request was withdrawn."""
        answers: queue.SimpleQueue[tuple[Header, bytes]] = queue.SimpleQueue()
        number = self.ask(header, block, lambda header, block: answers.put((header, block)))
        give_up = None if timeout is None else time.monotonic() + timeout
        while True:
            wait = TURN if give_up is None else min(TURN, max(0.0, give_up - time.monotonic()))
            try:
                answer, found = answers.get(timeout=wait)
            except queue.Empty:
                try:
                    self.check()
                except StreamError:
                    self.drop(number)
                    raise
                if give_up is not None and time.monotonic() >= give_up:
                    give_up = None
                    if self.call({"op": "forget", "of": number})["forgotten"]:
                        self.drop(number)
                        return None
                continue
            if "error" in answer:
                raise StreamError(answer["error"])
            return answer, found

    def drop(self, number: int) -> None:
        """Forget a request: nobody wants its answer any longer."""
        with self._lock:
            self._open.pop(number, None)
            self._asked = deque(entry for entry in self._asked if entry[0] != number)

    def check(self) -> None:
        """Raise StreamLost if no broker answered for longer than the patience."""
        if self.broken is not None:
            raise StreamError(f"the connection to the streams of {self.root.parent} broke: {self.broken}")
        lost = self._lost_since
        if lost is not None and time.monotonic() - lost > self.patience:
            contact, says = self.contact, "is not there"
            if contact is not None:
                says = f"speaks of {contact.host} ({', '.join(contact.addresses)}, port {contact.port})"
            raise StreamLost(
                f"no broker of streams answers for {self.patience:.0f} s: {contact_file(self.root)} {says}; "
                "the run's controller starts it: see `diel status`"
            )

    def due(self, pump: Pump) -> None:
        """Something has to be sent."""
        with self._lock:
            self._pumps.add(pump)
        self._wake()

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            with contextlib.suppress(BlockingIOError, OSError):
                os.write(self._wake_write, b"w")

    def close(self) -> None:
        """End the thread; what was not sent is not sent."""
        self._ended = True
        self._woken = False
        self._wake()
        self._thread.join(5)

    def _run(self) -> None:
        try:
            while not self._ended:
                self._turn()
        except BaseException as error:
            self.broken = error
        finally:
            self._hang_up()
            self._context.term()
            for file in (self._wake_read, self._wake_write):
                os.close(file)

    def _turn(self) -> None:
        if self._lost_since is not None:
            self._look()
        more = self._send_pumps()
        ready = dict(self._poller.poll(1 if more else 50 if self._lost_since is not None else 1000))
        if self._wake_read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_read, 64)
            self._woken = False
        self._send_asked()
        if self._monitor is not None and self._monitor in ready:
            self._heed()
        if self._socket is not None and self._socket in ready:
            self._receive()

    def _send_pumps(self) -> bool:
        """Send what is due; whether there is more to send in a millisecond."""
        if not self._pumps:
            return False
        now = time.monotonic()
        with self._lock:
            pumps, self._pumps = self._pumps, set()
        waiting = {pump for pump in pumps if pump(now)}
        with self._lock:
            self._pumps |= waiting
        self._send_asked()
        return bool(waiting)

    def _send_asked(self) -> None:
        while self._asked:
            with self._lock:
                if not self._asked:
                    return
                number, header, block, done = self._asked.popleft()
                self._open[number] = (header, block, done)
            self._put_out(header, block)

    def _put_out(self, header: bytes, block: bytes) -> None:
        if self._socket is not None:
            self._socket.send_multipart((header, block) if block else (header,), copy=True)

    def _receive(self) -> None:
        for _ in range(100):
            if self._socket is None:
                return
            try:
                header, *blocks = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            answer = unpack(header)
            with self._lock:
                pending = self._open.pop(answer["id"], None)
            if pending is not None:
                pending[2](answer, blocks[0] if blocks else b"")

    def _heed(self) -> None:
        """Handle what the socket says about its connection."""
        while self._monitor is not None:
            try:
                event = parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))["event"]
            except zmq.Again:
                return
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._lost_since = None
            elif event & _LOST:
                self._hang_up()

    def _look(self) -> None:
        """Look for the broker, and ask it everything that is unanswered."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_wait = min(_LOOK_MOST, 1.5 * self._look_wait)
        self._look_at = now + self._look_wait
        contact = read_contact(self.root)
        if contact is None or (self._socket is not None and contact == self.contact):
            return
        if self._socket is not None:
            self._hang_up()
        self.contact = contact
        self._call_up(contact)
        with self._lock:
            again = sorted(self._open.items())
        for _, (header, block, _done) in again:
            self._put_out(header, block)

    def _call_up(self, contact: Contact) -> None:
        dealer = self._context.socket(zmq.DEALER)
        dealer.linger = 0
        dealer.sndhwm = dealer.rcvhwm = 0
        dealer.heartbeat_ivl = 10_000
        dealer.heartbeat_timeout = 30_000
        dealer.curve_serverkey = contact.key.encode()
        dealer.curve_publickey = contact.client_key.encode()
        dealer.curve_secretkey = contact.client_secret.encode()
        events = zmq.EVENT_HANDSHAKE_SUCCEEDED | _LOST
        self._monitor = dealer.get_monitor_socket(events)
        self._socket = dealer
        dealer.connect(f"tcp://{_reachable(contact)}:{contact.port}")
        self._poller.register(dealer, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)

    def _hang_up(self) -> None:
        if self._lost_since is None:
            self._lost_since = time.monotonic()
        self._look_at, self._look_wait = time.monotonic() + _LOOK / 2, _LOOK
        if self._socket is not None:
            self._poller.unregister(self._socket)
            self._poller.unregister(self._monitor)
            self._socket.disable_monitor()
            if self._monitor is not None:
                self._monitor.close(0)
            self._socket.close(0)
            self._socket = self._monitor = None


def _reachable(contact: Contact) -> str:
    """Return the address of the broker that answers from here; its first one if none does."""
    if len(contact.addresses) > 1:
        for address in contact.addresses:
            with contextlib.suppress(OSError), socket.create_connection((address, contact.port), timeout=1):
                return address
    return contact.addresses[0]
