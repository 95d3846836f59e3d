"""A broker without sockets: requests in, answers out. `again()` is a broker that was killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diel.streams.broker import Broker
from diel.streams.protocol import Header, PeerRequest, cut


class Desk:
    """A broker, and the answers that it gave to each peer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.gone: set[bytes] = set()
        self.answers: list[tuple[bytes, Header, bytes]] = []
        self.broker = Broker(root, self._send)
        self._ids = 0

    def _send(self, peer: bytes, header: Header, block: bytes) -> bool:
        if peer in self.gone:
            return False
        self.answers.append((peer, header, block))
        return True

    def again(self) -> None:
        self.broker.close()
        self.broker = Broker(self.root, self._send)

    def ask(
        self, op: str, block: bytes = b"", peer: bytes = b"p", **fields: Any
    ) -> tuple[Header, bytes] | None:
        """The answer, if it came at once."""
        self._ids += 1
        before = len(self.answers)
        self.broker.serve(PeerRequest(peer, {"id": self._ids, "op": op, **fields}, block))
        for who, header, found in self.answers[before:]:
            if who == peer and header["id"] == self._ids:
                return header, found
        return None

    def told(self, op: str, **fields: Any) -> Header:
        answer = self.ask(op, **fields)
        assert answer is not None
        return answer[0]

    # --- in words ---

    def open(self, buffer: int = 100, replay: bool = True, **groups: list[str]) -> None:
        self.told("open", channel="x", buffer=buffer, replay=replay, groups=groups)

    def put(self, member: str, first: int, *items: str, attempt: int = 1, **more: Any) -> Header:
        block = "".join(items).encode()
        sizes = [len(item.encode()) for item in items]
        return self.told(
            "put", block=block, channel="x", member=member, attempt=attempt, first=first, sizes=sizes, **more
        )

    def consume(self, group: str, member: str, attempt: int = 1, **more: Any) -> Header:
        return self.told("consume", channel="x", group=group, member=member, attempt=attempt, **more)

    def get(
        self, group: str, member: str, start: int, most: int = 100, attempt: int = 1, peer: bytes = b"p"
    ) -> list[str] | None:
        """Items; an empty list at the end; None where there is nothing yet."""
        who = {"channel": "x", "group": group, "member": member, "attempt": attempt}
        fields: dict[str, Any] = {**who, "from": start, "most": most}
        answer = self.ask("get", peer=peer, **fields)
        return None if answer is None else self.items(answer)

    @staticmethod
    def items(answer: tuple[Header, bytes]) -> list[str]:
        header, block = answer
        assert "error" not in header, header
        return [] if header.get("end") else [item.decode() for item in cut(block, header["sizes"])]

    def late(self) -> list[str]:
        """The items of the newest answer."""
        return self.items(self.answers[-1][1:])
