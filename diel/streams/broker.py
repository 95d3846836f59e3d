"""What the broker does with each request; sockets are `server.py`'s.

Nothing is answered before it stands in a log, and asking again changes nothing: a client that lost its broker
asks the next one the same. What a request means is told in docs/streams.md.

The broker's own log has what the channels' logs do not say: {"do": "open" | "close" | "attempt" | "place" |
"join" | "begin" | "give" | "undo" | "commit" | "settle" | "gone", …}.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from diel.streams.channel import Channel, Source
from diel.streams.group import Group, Member
from diel.streams.log import RecordLog
from diel.streams.message import Header
from diel.streams.tuples import Asked, Tuples, exact

Send = Callable[[bytes, Header, bytes], bool]
"""Sends an answer to a peer; False where the peer is gone."""


class Refused(Exception):
    """A request that cannot be granted: the message is the answer."""


class Waiting(NamedTuple):
    """A request that is answered later."""

    peer: bytes
    request: Header


class Broker:
    """All channels of a run and its tuple space, in one thread."""

    def __init__(self, root: Path, send: Send) -> None:
        self._root = root
        self._send = send
        self._log = RecordLog(root, "broker")
        self._tuples = Tuples(root / "space")
        self._channels: dict[str, Channel] = {}
        self._unopened: list[tuple[bytes, Header, bytes]] = []
        self._getting: dict[str, dict[tuple[str, str], Waiting]] = {}
        """By channel: who waits for an item, by group and member, in the order of asking."""
        self._wanting: dict[str, dict[str, Waiting]] = {}
        """By channel: producers that wait for room."""
        self._seeking: list[Waiting] = []
        """Who waits for a tuple, in the order of asking."""
        self.stopped = False
        self._requests: dict[str, Callable[[bytes, Header, bytes], Header | None]] = {
            "open": self._open,
            "close": self._close,
            "settle": self._settle,
            "facts": self._facts,
            "stop": self._stop,
            "produce": self._produce,
            "put": self._put,
            "want": self._want,
            "place": self._place,
            "part": self._part,
            "consume": self._consume,
            "get": self._get,
            "seat": self._seat,
            "commit": self._commit,
            "forget": self._forget,
            "space": self._space,
            "tuple": self._tuple,
            "space_commit": self._space_commit,
        }
        self._load()

    # --- the log -----------------------------------------------------------------------------------

    def _load(self) -> None:
        records = [header for header, _ in self._log.records()]
        bases = {header["c"]: header for header in records if header["do"] == "gone"}
        for header in records:
            if header["do"] == "open":
                self._fold(header)
                channel = self._channels[header["c"]]
                if not channel.end:
                    self._restore(channel, bases.get(header["c"]))
            else:
                self._fold(header)
        self._tuples.load()

    @staticmethod
    def _restore(channel: Channel, gone: Header | None) -> None:
        """Finds a channel's items; what was removed is known by its numbers alone."""
        if gone is not None:
            channel.base = channel.end = gone["base"]
            channel.bytes = gone["bytes"]
            for name, count in gone["counts"].items():
                channel.sources.setdefault(name, Source()).count = count
        channel.load()

    def _write(self, header: Header) -> None:
        self._log.append(header)
        self._fold(header)

    def _fold(self, header: Header) -> None:
        do, name = header["do"], header["c"]
        if do == "open":
            self._fold_open(header)
            return
        channel = self._channels[name]
        if do == "close":
            channel.closed = True
        elif do in ("attempt", "place"):
            source = channel.sources.setdefault(header["p"], Source())
            source.attempt, source.at = header["a"], header["at"]
        elif do == "join":
            group = channel.groups.setdefault(header["g"], Group(header["cursor"], header["holds"]))
            group.add([header["m"]])
        elif do == "skip":
            channel.groups[header["g"]].cursor = header["cursor"]
        elif do == "gone":
            channel.skip_to(header["base"])
        else:
            self._fold_member(do, channel.groups[header["g"]], header)

    def _fold_open(self, header: Header) -> None:
        name = header["c"]
        if name not in self._channels:
            number = len(self._channels) + 1
            self._channels[name] = Channel(self._root, number, name, header["buffer"], header["replay"])
        channel = self._channels[name]
        channel.buffer, channel.replay = header["buffer"], header["replay"]
        channel.closed &= not header["again"]
        for group, members in header["groups"].items():
            channel.groups.setdefault(group, Group(channel.base)).holds = True
            channel.groups[group].add(members)

    @staticmethod
    def _fold_member(do: str, group: Group, header: Header) -> None:
        name = header["m"]
        member = group.members[name]
        if do == "begin":
            group.begin(name, header["a"])
        elif do == "give":
            group.give(name, header["pos"], header["n"])
            member.at = member.deliveries.total
        elif do == "undo":
            group.undo(name, header["pos"], header["n"])
            member.at = member.deliveries.total
        elif do == "seat":
            member.at = header["at"]
        elif do == "commit":
            member.deliveries.commit(header["at"])
        elif do == "settle":
            group.settle(name, header["good"])

    # --- requests ----------------------------------------------------------------------------------

    def handle(self, peer: bytes, request: Header, block: bytes) -> None:
        """Answers a request, now or later."""
        try:
            serve = self._requests.get(str(request.get("op")))
            if serve is None:
                raise Refused(
                    f"no request '{request.get('op')}'; expected one of {', '.join(self._requests)}"
                )
            answer = serve(peer, request, block)
        except Refused as error:
            answer = {"error": str(error)}
        except OSError as error:
            answer = {"error": f"the broker cannot write below {self._root}: {error.strerror or error}"}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            answer = {"error": f"{request.get('op')}: {type(error).__name__}: {error}; see docs/streams.md"}
        if answer is not None:
            self._answer(peer, request, answer)

    def _answer(self, peer: bytes, request: Header, answer: Header, block: bytes = b"") -> bool:
        return self._send(peer, {"id": request.get("id"), **answer}, block)

    def _channel(self, peer: bytes, request: Header, block: bytes) -> Channel | None:
        """The channel that is meant; None where it is not open yet: the request waits for that."""
        channel = self._channels.get(request["channel"])
        if channel is None:
            self._unopened.append((peer, request, block))
        return channel

    def _open(self, peer: bytes, request: Header, block: bytes) -> Header:
        name = str(request["channel"])
        groups = {str(group): [str(m) for m in members] for group, members in request["groups"].items()}
        wanted = {
            "do": "open",
            "c": name,
            "buffer": max(1, int(request["buffer"])),
            "replay": bool(request["replay"]),
            "groups": groups,
            "again": bool(request.get("again", False)),
        }
        if not self._opened_so(wanted):
            self._write(wanted)
            (self._root / self._channels[name].folder).mkdir(parents=True, exist_ok=True)
        waiting, self._unopened = self._unopened, []
        for one in waiting:
            self.handle(*one)
        return {}

    def _opened_so(self, wanted: Header) -> bool:
        channel = self._channels.get(wanted["c"])
        return (
            channel is not None
            and not (channel.closed and wanted["again"])
            and (channel.buffer, channel.replay) == (wanted["buffer"], wanted["replay"])
            and all(
                group in channel.groups and set(members) <= set(channel.groups[group].members)
                for group, members in wanted["groups"].items()
            )
        )

    def _known(self, request: Header) -> Channel:
        channel = self._channels.get(request["channel"])
        if channel is None:
            raise Refused(f"channel '{request['channel']}' was never opened")
        return channel

    def _close(self, peer: bytes, request: Header, block: bytes) -> Header:
        channel = self._known(request)
        if not channel.closed:
            self._write({"do": "close", "c": channel.name})
            self._serve_waiting(channel)
            channel.sweep()
        return {}

    def _settle(self, peer: bytes, request: Header, block: bytes) -> Header:
        channel = self._known(request)
        group = channel.groups.get(request["group"])
        if group is None or request["member"] not in group.members:
            return {}  # it never came, and nobody counts on it
        if request["member"] in group.unsettled:
            where = {"c": channel.name, "g": request["group"], "m": request["member"]}
            self._write({"do": "settle", **where, "good": bool(request["good"])})
            self._getting.get(channel.name, {}).pop((request["group"], request["member"]), None)
            self._moved_on(channel)
            self._serve_waiting(channel)
        return {}

    def _facts(self, peer: bytes, request: Header, block: bytes) -> Header:
        facts = {name: channel.facts() for name, channel in self._channels.items()}
        return {"channels": facts, "space": self._tuples.facts()}

    def _stop(self, peer: bytes, request: Header, block: bytes) -> Header:
        self.stopped = True
        return {}

    def _forget(self, peer: bytes, request: Header, block: bytes) -> Header:
        """Takes a request back that still waits. The answer says whether it did."""
        of = request["of"]
        forgotten = False
        for channel in self._getting.values():
            for member, one in list(channel.items()):
                if one.peer == peer and one.request["id"] == of:
                    del channel[member]
                    forgotten = True
        left = [one for one in self._seeking if one.peer != peer or one.request["id"] != of]
        forgotten |= len(left) < len(self._seeking)
        self._seeking = left
        unopened = [one for one in self._unopened if one[0] != peer or one[1]["id"] != of]
        forgotten |= len(unopened) < len(self._unopened)
        self._unopened = unopened
        return {"forgotten": forgotten}

    # --- producers ---------------------------------------------------------------------------------

    def _source(self, channel: Channel, request: Header) -> Source:
        """The producer of a request. Raises Refused where a later attempt of it has come."""
        source = channel.sources.setdefault(request["member"], Source())
        _refuse_older(source.attempt, request)
        if request["attempt"] > source.attempt:
            who = {"c": channel.name, "p": request["member"]}
            self._write({"do": "attempt", **who, "a": request["attempt"], "at": 0})
        channel.here.add(request["member"])
        return source

    def _produce(self, peer: bytes, request: Header, block: bytes) -> Header | None:
        channel = self._channel(peer, request, block)
        if channel is None:
            return None
        source = self._source(channel, request)
        limit = channel.limit(request["member"])
        return {"count": source.count, "at": source.at, "limit": limit, "folder": channel.folder}

    def _put(self, peer: bytes, request: Header, block: bytes) -> Header | None:
        channel = self._channel(peer, request, block)
        if channel is None:
            return None
        source = self._source(channel, request)
        if channel.closed and request["first"] + len(request["sizes"]) > source.count:
            raise Refused(
                f"{request['member']}: the stream {channel.name} is closed: nothing more can be put"
            )
        if channel.put(request["member"], request, block):
            self._serve_waiting(channel)
        return {"count": source.count, "limit": channel.limit(request["member"])}

    def _want(self, peer: bytes, request: Header, block: bytes) -> Header | None:
        channel = self._channel(peer, request, block)
        if channel is None:
            return None
        self._source(channel, request)
        self._wanting.setdefault(channel.name, {})[request["member"]] = Waiting(peer, request)
        self._grant(channel)
        return None

    def _grant(self, channel: Channel) -> None:
        """Lets producers go on once there is room for an eighth of the buffer: not for each item alone."""
        wanting = self._wanting.get(channel.name)
        if not wanting:
            return
        room = channel.room()
        if room < max(1, channel.buffer // 8) and not channel.closed:
            return
        for member, one in list(wanting.items()):
            del wanting[member]
            above = max(channel.limit(member), int(one.request["above"]) + 1)
            self._answer(one.peer, one.request, {"limit": above})

    def _place(self, peer: bytes, request: Header, block: bytes) -> Header:
        """Where an attempt that goes on in another process is: behind what it put, known or not."""
        channel = self._known(request)
        self._source(channel, request)
        who = {"c": channel.name, "p": request["member"]}
        self._write({"do": "place", **who, "a": request["attempt"], "at": int(request["at"])})
        return {}

    def _part(self, peer: bytes, request: Header, block: bytes) -> Header:
        """A producer leaves, and its share of the room is the others'."""
        channel = self._known(request)
        source = channel.sources.get(request["member"])
        if source is not None and source.attempt == request["attempt"]:
            channel.here.discard(request["member"])
            self._grant(channel)
        return {}

    # --- consumers ---------------------------------------------------------------------------------

    def _member(self, channel: Channel, request: Header) -> tuple[Group, Member]:
        """The consumer of a request. Raises Refused where a later attempt of it has come."""
        group = channel.groups[request["group"]]
        member = group.members[request["member"]]
        _refuse_older(member.attempt, request)
        return group, member

    def _consume(self, peer: bytes, request: Header, block: bytes) -> Header | None:
        channel = self._channel(peer, request, block)
        if channel is None:
            return None
        where = {"c": channel.name, "g": request["group"], "m": request["member"]}
        group = channel.groups.get(request["group"])
        if group is None or request["member"] not in group.members:
            replayed = request.get("replay", True) and channel.replay
            cursor = channel.base if replayed else channel.end
            self._write({"do": "join", **where, "cursor": cursor, "holds": False})
        group, member = self._member(channel, request)
        if request["attempt"] > member.attempt:
            self._getting.get(channel.name, {}).pop((request["group"], request["member"]), None)
            self._write({"do": "begin", **where, "a": request["attempt"]})
            if not request.get("replay", True) and not group.delivered:
                self._write({"do": "skip", **where, "cursor": channel.end})
                self._moved_on(channel)
        return {
            "committed": member.deliveries.committed,
            "at": member.at,
            "ahead": max(1, channel.buffer // 4),
        }

    def _get(self, peer: bytes, request: Header, block: bytes) -> Header | None:
        channel = self._channel(peer, request, block)
        if channel is None:
            return None
        _, member = self._member(channel, request)
        if request["from"] > member.deliveries.total or request["from"] < member.deliveries.committed:
            raise Refused(
                f"{request['member']} asks for its item {request['from']} of {channel.name}; "
                f"{member.deliveries.committed} are committed, {member.deliveries.total} were delivered"
            )
        if not self._deliver(channel, peer, request):
            waiting = self._getting.setdefault(channel.name, {})
            key = (request["group"], request["member"])
            waiting.pop(key, None)
            waiting[key] = Waiting(peer, request)
        self._grant(channel)
        return None

    def _deliver(self, channel: Channel, peer: bytes, request: Header) -> bool:
        """Answers a `get` if there is something to answer: items again, new items, or the end."""
        group = channel.groups[request["group"]]
        member = group.members[request["member"]]
        where = {"c": channel.name, "g": request["group"], "m": request["member"]}
        number, most = int(request["from"]), max(1, int(request["most"]))
        if number < member.deliveries.total:
            position, there = member.deliveries.stretch(number)
            items = channel.fetch(position, min(there, most))
            self._write({"do": "seat", **where, "at": number + len(items)})
            self._answer(peer, request, _items(number, items), b"".join(items))
            return True
        position, there = group.next_stretch(channel.end)
        if not there:
            if not channel.closed:
                return False
            self._answer(peer, request, {"end": True})
            return True
        if len(group.unsettled) > 1:
            most = min(most, max(1, there // (2 * len(group.unsettled))))
        items = channel.fetch(position, min(there, most))
        stretch = {"pos": position, "n": len(items)}
        self._write({"do": "give", **where, **stretch})
        if not self._answer(peer, request, _items(number, items), b"".join(items)):
            self._write({"do": "undo", **where, **stretch})
        return True

    def _serve_waiting(self, channel: Channel) -> None:
        """Items came, or none will come any more."""
        waiting = self._getting.get(channel.name)
        if waiting:
            for key, one in list(waiting.items()):
                if self._deliver(channel, one.peer, one.request):
                    del waiting[key]
        self._grant(channel)

    def _seat(self, peer: bytes, request: Header, block: bytes) -> Header:
        """What a consumer had asked ahead and did not use is the next one's of its attempt."""
        channel = self._known(request)
        _, member = self._member(channel, request)
        where = {"c": channel.name, "g": request["group"], "m": request["member"]}
        if member.deliveries.committed <= request["at"] <= member.deliveries.total:
            self._write({"do": "seat", **where, "at": request["at"]})
        return {}

    def _commit(self, peer: bytes, request: Header, block: bytes) -> Header:
        channel = self._known(request)
        _, member = self._member(channel, request)
        if request["at"] > member.deliveries.total:
            raise Refused(f"{request['member']} commits items of {channel.name} that it did not get")
        if request["at"] > member.deliveries.committed:
            where = {"c": channel.name, "g": request["group"], "m": request["member"]}
            self._write({"do": "commit", **where, "at": request["at"]})
            self._moved_on(channel)
        return {}

    def _moved_on(self, channel: Channel) -> None:
        """Removes what nobody needs any more."""
        spent = channel.spent()
        if not spent:
            return
        counts = {name: source.count for name, source in channel.sources.items()}
        base = channel.first_kept(spent)
        gone = {"do": "gone", "c": channel.name, "base": base, "bytes": channel.bytes, "counts": counts}
        self._log.append(gone)
        channel.drop(spent)

    # --- the tuple space ---------------------------------------------------------------------------

    def _space(self, peer: bytes, request: Header, block: bytes) -> Header:
        owner = self._tuples.owners.get(request["owner"])
        _refuse_older(0 if owner is None else owner.attempt, request)
        return {"at": self._tuples.begin(request["owner"], request["attempt"]).at}

    def _tuple(self, peer: bytes, request: Header, block: bytes) -> Header | None:
        what, key = request["do"], request["key"]
        _check_key(what, key)
        owner = self._tuples.owners[request["owner"]]
        _refuse_older(owner.attempt, request)
        asked = Asked(what, exact(key))
        if owner.answer(request["number"], asked) is not None:
            owner.at = request["number"] + 1
        elif request["number"] < owner.base:
            raise Refused(f"operation {request['number']} of {request['owner']} is committed")
        elif self._tuples.do(request["owner"], request["number"], asked, request, block) is None:
            self._seeking = [
                one
                for one in self._seeking
                if (one.request["owner"], one.request["number"]) != (request["owner"], request["number"])
            ]
            self._seeking.append(Waiting(peer, request))
            return None
        self._answer_tuple(peer, request)
        if what == "put":
            self._serve_seeking(key)
        return None

    def _answer_tuple(self, peer: bytes, request: Header) -> None:
        asked = Asked(request["do"], exact(request["key"]))
        found = self._tuples.owners[request["owner"]].answer(request["number"], asked)
        if found is None:
            return
        value = b"" if request["do"] == "put" else self._tuples.value(found)
        self._answer(peer, request, {"key": list(found.key)}, value)

    def _serve_seeking(self, key: list[Any]) -> None:
        """A tuple came: whoever waits for one like it gets it, in the order of asking."""
        left: list[Waiting] = []
        for one in self._seeking:
            request = one.request
            if not self._may_be(request["key"], key) or self._tuples.find(request["key"]) is None:
                left.append(one)
                continue
            asked = Asked(request["do"], exact(request["key"]))
            self._tuples.do(request["owner"], request["number"], asked, request, b"")
            self._answer_tuple(one.peer, request)
        self._seeking = left

    @staticmethod
    def _may_be(pattern: list[Any], key: list[Any]) -> bool:
        return len(pattern) == len(key)

    def _space_commit(self, peer: bytes, request: Header, block: bytes) -> Header:
        _refuse_older(self._tuples.owners[request["owner"]].attempt, request)
        self._tuples.commit(request["owner"], request["number"])
        return {}

    def close(self) -> None:
        self._log.close()
        self._tuples.log.close()
        for channel in self._channels.values():
            channel.log.close()


def _refuse_older(attempt: int, request: Header) -> None:
    if request["attempt"] < attempt:
        who = request.get("member") or request.get("owner")
        raise Refused(f"{who}: attempt {request['attempt']} is over: attempt {attempt} has begun")


def _items(number: int, items: list[bytes]) -> Header:
    return {"from": number, "sizes": [len(item) for item in items]}


def _check_key(what: str, key: Any) -> None:
    """Raises Refused for what is no key or pattern."""
    if what not in ("put", "read", "take"):
        raise Refused(f"no operation '{what}' on the tuple space; expected put, read or take")
    scalars = (
        isinstance(key, list) and key and all(isinstance(part, str | int | float | None) for part in key)
    )
    if not scalars or (what == "put" and None in key):
        raise Refused(f"{key!r} is no key: expected a list of texts, numbers and booleans")
