"""What the broker does with each request; sockets are `server.py`'s.

Nothing is answered before it is in a log, and asking again changes nothing: a client that lost its broker
asks the next one the same. docs/streams.md says what each request means.
"""

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from diel.base.errors import MISTAKE
from diel.base.form import NOT_AS_IT_SHOULD_BE
from diel.base.paths import RunPaths
from diel.streams.channel import Channel, Channels, ProducerState
from diel.streams.group import Group, Member
from diel.streams.log import ChannelRecord
from diel.streams.protocol import FORMS, Header, PeerRequest, RequestRefused, flaw_of, refuse_older
from diel.streams.tuples import Tuples

Send = Callable[[bytes, Header, bytes], bool]
"""Sends an answer to a peer; False if the peer is gone."""
_WAIT = ("produce", "put", "want", "consume", "get")
"""Requests that wait until their channel is open."""


class Broker:
    """All channels of a run and its tuple space, in one thread."""

    def __init__(self, root: Path, send: Send) -> None:
        self._root = root
        self._send = send
        self._channels = Channels(root)
        self._tuples = Tuples(root / "space", self._answer, self.serve)
        self._unopened: list[PeerRequest] = []
        self.stopped = False
        self._space, self._tuple = self._tuples.enter, self._tuples.do
        self._space_commit = self._tuples.commit

    def serve(self, request: PeerRequest) -> None:
        """Answer a request, now or later."""
        op = str(request.header.get("op"))
        try:
            answer = self._granted(op, request)
        except RequestRefused as error:
            answer = {"error": str(error)}
        except OSError as error:
            answer = {"error": f"the broker cannot write below {self._root}: {error.strerror or error}"}
        except NOT_AS_IT_SHOULD_BE as error:
            answer = {"error": f"{op}: {flaw_of(request.header) or self._own_mistake(error)}"}
        if answer is not None:
            self._answer(request, answer)

    def _granted(self, op: str, request: PeerRequest) -> Header | None:
        """Return the answer; None if it comes later, or was already sent."""
        if op not in FORMS:
            raise RequestRefused(f"no request '{op}'; expected one of {', '.join(FORMS)}")
        serve: Callable[..., Header | None] = getattr(self, f"_{op}")
        if op == "open" or "channel" not in FORMS[op]:
            return serve(request)
        channel = self._channels.get(request.header["channel"])
        if channel is not None:
            return serve(channel, request)
        if op not in _WAIT:
            raise RequestRefused(f"channel '{request.header['channel']}' was never opened")
        self._unopened.append(request)
        return None

    def _own_mistake(self, error: Exception) -> str:
        """Return the answer to a request that was well formed; the broker goes on, because others need it."""
        traceback.print_exception(error)  # into its log
        log = RunPaths(self._root.parent).broker_log
        return f"{MISTAKE}: {type(error).__name__}: {error}\n    report it, with the end of {log}"

    def _answer(self, request: PeerRequest, answer: Header, block: bytes = b"") -> bool:
        return self._send(request.peer, {"id": request.header.get("id"), **answer}, block)

    # Each request is answered by the method of its name: by `_open`, or by one of `Tuples`.

    def _open(self, request: PeerRequest) -> Header:
        header = request.header
        record: ChannelRecord = {
            "do": "open",
            "c": str(header["channel"]),
            "buffer": max(1, int(header["buffer"])),
            "replay": bool(header["replay"]),
            "groups": {str(group): [str(m) for m in members] for group, members in header["groups"].items()},
        }
        if not self._channels.has_opened(record):
            self._channels.write(record)
        waiting, self._unopened = self._unopened, []
        for consumer in waiting:
            self.serve(consumer)
        return {}

    def _close(self, channel: Channel, request: PeerRequest) -> Header:
        if not channel.closed:
            self._channels.write({"do": "close", "c": channel.name})
            self._serve_waiting(channel)
            channel.sweep()
        return {}

    def _break(self, channel: Channel, request: PeerRequest) -> Header:
        """Return a producer failed for good: the named groups get what is there now, and no end."""
        groups = [name for name in request.header["groups"] if channel.group(name).broken_at is None]
        if groups or not channel.broken:
            why, at = str(request.header["why"]), channel.end
            self._channels.write({"do": "break", "c": channel.name, "groups": groups, "why": why, "at": at})
            self._serve_waiting(channel)
        return {}

    def _settle(self, channel: Channel, request: PeerRequest) -> Header:
        header = request.header
        group, member = channel.groups.get(header["group"]), header["member"]
        if group is None or member not in group.unsettled:
            return {}  # it was settled before, or it never came and nobody counts on it
        self._note("settle", request, good=bool(header["good"]))
        channel.getting.pop((header["group"], member), None)
        self._channels.remove_spent(channel)
        self._serve_waiting(channel)
        return {}

    def _facts(self, request: PeerRequest) -> Header:
        facts = {channel.name: channel.facts() for channel in self._channels.values()}
        return {"channels": facts, "space": {"tuples": len(self._tuples)}}

    def _stop(self, request: PeerRequest) -> Header:
        self.stopped = True
        return {}

    def _flaw(self, channel: Channel, request: PeerRequest) -> Header:
        """Return whether an attempt of a task read and put everything; each MPI rank is a member."""
        header = request.header
        task, group = str(header["member"]), header.get("group")
        there: Mapping[str, ProducerState | Member]
        there = channel.sources if group is None else channel.group(group).members
        for name in (name for name in there if name == task or name.startswith(f"{task}.")):
            refuse_older(there[name].attempt, {**header, "member": name})
            if group is None:
                kind, flaw = channel.flaw_of(name, header["attempt"], goes_on=bool(header["goes_on"]))
            else:
                kind, flaw = channel.flaw_for(group, name)
            if kind:
                return {"class": kind, "flaw": flaw}
        return {"class": "", "flaw": ""}

    def _forget(self, request: PeerRequest) -> Header:
        """Withdraw a waiting request. The answer says whether it did."""
        forgotten = self._tuples.forget(request)
        for channel in self._channels.values():
            for place in [place for place, item in channel.getting.items() if item.is_meant(request)]:
                del channel.getting[place]
                forgotten = True
        unopened = [item for item in self._unopened if not item.is_meant(request)]
        forgotten |= len(unopened) < len(self._unopened)
        self._unopened = unopened
        return {"forgotten": forgotten}

    def _source(self, channel: Channel, request: PeerRequest) -> ProducerState:
        """Return the producer of a request. Raise Refused if a later attempt has begun."""
        name, attempt = request.header["member"], request.header["attempt"]
        source = channel.sources.setdefault(name, ProducerState())
        refuse_older(source.attempt, request.header)
        if attempt > source.attempt:
            self._channels.write({"do": "attempt", "c": channel.name, "p": name, "a": attempt, "at": 0})
        channel.here.add(name)
        return source

    def _produce(self, channel: Channel, request: PeerRequest) -> Header:
        source = self._source(channel, request)
        limit = channel.limit(request.header["member"])
        return {"count": source.count, "at": source.at, "limit": limit, "folder": channel.folder}

    def _put(self, channel: Channel, request: PeerRequest) -> Header:
        header = request.header
        source, name = self._source(channel, request), header["member"]
        if channel.closed and header["first"] + len(header["sizes"]) > source.count:
            raise RequestRefused(f"{name}: the stream {channel.name} is closed: nothing more can be put")
        if channel.put(name, header, request.block):
            self._serve_waiting(channel)
        return {"count": source.count, "limit": channel.limit(name)}

    def _want(self, channel: Channel, request: PeerRequest) -> None:
        self._source(channel, request)
        channel.wanting[request.header["member"]] = request
        self._grant(channel)

    def _grant(self, channel: Channel) -> None:
        """Let producers continue once an eighth of the buffer is free, not for every single item."""
        if not channel.wanting or (channel.room() < max(1, channel.buffer // 8) and not channel.closed):
            return
        for member, producer in channel.wanting.items():
            above = max(channel.limit(member), int(producer.header["above"]) + 1)
            self._answer(producer, {"limit": above})
        channel.wanting.clear()

    def _place(self, channel: Channel, request: PeerRequest) -> Header:
        """Return the place of an attempt that continues in another process, after all that it put."""
        self._source(channel, request)
        header = request.header
        name, attempt, at = header["member"], header["attempt"], int(header["at"])
        self._channels.write({"do": "place", "c": channel.name, "p": name, "a": attempt, "at": at})
        return {}

    def _part(self, channel: Channel, request: PeerRequest) -> Header:
        """Return a producer leaves after putting everything: the others get its share of the room."""
        name, attempt = request.header["member"], request.header["attempt"]
        source = channel.sources.get(name)
        if source is not None and source.attempt == attempt:
            self._channels.write({"do": "place", "c": channel.name, "p": name, "a": attempt, "at": source.at})
            channel.here.discard(name)
            source.failed = bool(request.header.get("failed", False))
            self._grant(channel)
        return {}

    def _member(self, channel: Channel, request: PeerRequest) -> tuple[Group, Member]:
        """Return the consumer of a request. Raise Refused if it is unknown, or a later attempt has begun."""
        group, name = channel.group(request.header["group"]), request.header["member"]
        member = group.members.get(name)
        if member is None:
            raise RequestRefused(f"{name} does not read {channel.name} as one of {request.header['group']}")
        refuse_older(member.attempt, request.header)
        return group, member

    def _consume(self, channel: Channel, request: PeerRequest) -> Header:
        header = request.header
        replay = header.get("replay", True)
        known = channel.groups.get(header["group"])
        if known is None or header["member"] not in known.members:
            cursor = channel.base if replay and channel.replay else channel.end
            self._note("join", request, cursor=cursor, holds=False)
        group, member = self._member(channel, request)
        if header["attempt"] > member.attempt:
            again = header["member"] in group.good
            self._note("begin", request, a=header["attempt"])
            if again and (channel.base or len(group.members) > 1):
                why = f"{header['member']} runs again, and the items that it had read are gone"
                groups = [header["group"]]
                self._channels.write(
                    {"do": "break", "c": channel.name, "groups": groups, "why": why, "at": 0}
                )
            late = channel.getting.pop((header["group"], header["member"]), None)
            if late is not None:
                self.serve(late)  # the previous attempt learns that it is over
            if not replay and not group.delivered:
                self._note("skip", request, cursor=channel.end)
                self._channels.remove_spent(channel)
        member.reading |= bool(header.get("leaves", False))
        ahead = max(1, channel.buffer // 4)
        return {"committed": member.committed, "at": member.at, "ahead": ahead}

    def _get(self, channel: Channel, request: PeerRequest) -> None:
        header = request.header
        _, member = self._member(channel, request)
        if not member.committed <= header["from"] <= member.total:
            raise RequestRefused(
                f"{header['member']} asks for its item {header['from']} of {channel.name}; "
                f"{member.committed} are committed, {member.total} were delivered"
            )
        if not self._deliver(channel, request):
            place = (header["group"], header["member"])
            channel.getting.pop(place, None)  # the newest comes last
            channel.getting[place] = request
        self._grant(channel)

    def _deliver(self, channel: Channel, request: PeerRequest) -> bool:
        """Answer a `get` if there is something to answer: items again, new items, or the end."""
        header = request.header
        group, member = self._member(channel, request)
        number, most = int(header["from"]), max(1, int(header["most"]))
        again = number < member.total
        position, there = member.stretch(number) if again else group.next_stretch(channel.end)
        if not there:
            return self._tell_end(channel, request)
        if not again and len(group.unsettled) > 1:
            most = min(most, max(1, there // (2 * len(group.unsettled))))
        items = channel.fetch(position, min(there, most))
        if again:
            self._note("seat", request, at=number + len(items))
        else:
            self._note("give", request, pos=position, n=len(items))
        answer: Header = {"from": number, "sizes": [len(item) for item in items]}
        if not self._answer(request, answer, b"".join(items)) and not again:
            self._note("undo", request, pos=position, n=len(items))
        return True

    def _tell_end(self, channel: Channel, request: PeerRequest) -> bool:
        """Answer a `get` that finds no item: with the end if it has come, or with what broke the stream."""
        group, member = self._member(channel, request)
        if group.broken_at is not None or (channel.broken and not group.holds):
            if not member.broken:
                self._note("tell", request, why=channel.broken)
            self._answer(request, {"broken": channel.broken})
            return True
        if channel.closed:
            self._answer(request, {"end": True})
        return channel.closed

    def _serve_waiting(self, channel: Channel) -> None:
        """Items came, or no more will come: serves all waiting requests again."""
        waiting, channel.getting = channel.getting, {}
        for consumer in waiting.values():
            self.serve(consumer)
        self._grant(channel)

    def _seat(self, channel: Channel, request: PeerRequest) -> Header:
        """Return the next consumer of this attempt gets what this one fetched ahead and did not use."""
        (_, member), at = self._member(channel, request), int(request.header["at"])
        member.reading = False
        if member.committed <= at <= member.total:
            self._note("seat", request, at=at)
        return {}

    def _commit(self, channel: Channel, request: PeerRequest) -> Header:
        (_, member), at = self._member(channel, request), int(request.header["at"])
        if at > member.total:
            raise RequestRefused(
                f"{request.header['member']} commits items of {channel.name} that it did not get"
            )
        if at > member.committed:
            self._note("commit", request, at=at)
            self._channels.remove_spent(channel)
        return {}

    def _note(self, do: str, request: PeerRequest, **facts: Any) -> None:
        """Write what became of a consumer."""
        header = request.header
        seat = {"c": header["channel"], "g": header["group"], "m": header["member"]}
        self._channels.write(cast("ChannelRecord", {"do": do, **seat, **facts}))

    def close(self) -> None:
        self._channels.close()
        self._tuples.log.close()
