"""The channels of a run: the items of each in order of arrival, its producers, its groups."""

import contextlib
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from diel.base.errors import counted
from diel.base.files import put
from diel.streams.group import Group
from diel.streams.log import Batch, BatchIndex, ChannelRecord, ChannelSnapshot, Counts, RecordLog
from diel.streams.protocol import Header, PeerRequest, RequestRefused, cut, pack, unpack

MANY = 2**53
"""Credit without a limit: the largest whole number that every JSON reader takes."""
REPLY = 512 * 1024
"""Bytes of items in one answer, beyond the first item."""
REMEMBERED = 8 * 1024 * 1024
"""Bytes of the newest batches that are kept in memory; older ones are read from the log."""
Flaw = tuple[str, str]
"""Why an attempt of a task cannot count: the class of its failure and the reason, or two empty texts."""
WHOLE: Flaw = ("", "")


@dataclass
class ProducerState:
    """A producer, over all its attempts."""

    attempt: int = 0
    count: int = 0
    """Items that are in the channel."""
    at: int = 0
    """Where this attempt is: it puts again what earlier ones put."""
    failed: bool = False
    """Whether the last one who put failed."""


class Channel:
    """A channel: its items on disk, its producers and consumers. Its log has one record a `Batch`."""

    def __init__(self, root: Path, number: int, name: str, buffer: int, replay: bool) -> None:
        self.name = name
        self.folder = f"channels/{number:04d}"
        self.buffer = buffer
        self.replay = replay
        self.closed = False
        self.broken = ""
        """Why it lacks items; empty if it does not."""
        self.groups: dict[str, Group] = {}
        self.sources: dict[str, ProducerState] = {}
        self.here: set[str] = set()
        """Producers that share the room."""
        self.getting: dict[tuple[str, str], PeerRequest] = {}
        """Requests that wait for an item, by group and member, oldest first."""
        self.wanting: dict[str, PeerRequest] = {}
        """Producers that wait for room."""
        self.base = 0
        """The lowest position that is still there."""
        self.end = 0
        self.bytes = 0
        self._counted = 0
        """Below this position, bytes are counted already."""
        self._root = root
        self.log = RecordLog(root / self.folder, "items")
        self._positions = array("Q")
        self._files = array("I")
        self._records = array("Q")
        self._held: dict[int, set[str]] = {}
        self._newest: dict[str, int] = {}
        self._held_bytes = 0
        self._recent: OrderedDict[int, list[bytes]] = OrderedDict()
        """Batches by the position of their first items, the oldest first."""
        self._recent_bytes = 0

    def load(self) -> None:
        """Find the items that are on the disk."""
        for file in self.log.files:
            is_full = file != self.log.files[-1]
            if is_full and self._load_index(file):
                continue
            for header, place in self.log.records_of(file):
                self._index(cast("Batch", header), file, place.record)
            if is_full:
                self._save_index(file)

    def _save_index(self, file: int) -> None:
        """Keep what `_index` made of a file that is full, so that it need not be read again."""
        first = bisect_left(self._files, file)
        held = sorted(self._held.get(file, ()))
        header: BatchIndex = {**self._counts(), "held": held, "batches": len(self._files) - first}
        block = self._positions[first:].tobytes() + self._records[first:].tobytes()
        with contextlib.suppress(OSError):  # it only saves time
            put(self._index_of(file), pack(header) + b"\n" + block)

    def _index_of(self, file: int) -> Path:
        return self.log.path(file).with_suffix(".index")

    def _load_index(self, file: int) -> bool:
        try:
            text, _, block = self._index_of(file).read_bytes().partition(b"\n")
        except OSError:
            return False
        header = cast("BatchIndex", unpack(text))
        count = header["batches"]
        self._positions.frombytes(block[: 8 * count])
        self._records.frombytes(block[8 * count :])
        self._files.extend([file] * count)
        self._note_counts(header)
        self.end, self._counted = header["end"], max(self._counted, header["end"])
        self.bytes = max(self.bytes, header["bytes"])
        for name in header["held"]:
            self._hold(file, name)
        return True

    def _counts(self) -> Counts:
        counts = {name: source.count for name, source in self.sources.items()}
        return {"end": self.end, "bytes": self.bytes, "counts": counts}

    def _note_counts(self, header: Counts) -> None:
        for name, count in header["counts"].items():
            source = self.sources.setdefault(name, ProducerState())
            source.count = max(source.count, count)

    def snapshot(self, block: bytearray) -> ChannelSnapshot:
        """Return its state besides the items; appends the arrays of its groups to the block."""
        return {
            "c": self.name,
            "buffer": self.buffer,
            "replay": self.replay,
            "closed": self.closed,
            "broken": self.broken,
            "base": self.base,
            **self._counts(),
            "sources": {name: [source.attempt, source.at] for name, source in self.sources.items()},
            "groups": {name: group.snapshot(block) for name, group in self.groups.items()},
        }

    def restore(self, saved: ChannelSnapshot, block: memoryview) -> memoryview:
        """Take in a snapshot; return the rest of the block."""
        self.closed, self.broken = saved["closed"], saved.get("broken", "")
        self.note_gone(saved)
        for name, (attempt, at) in saved["sources"].items():
            self.sources[name].attempt, self.sources[name].at = attempt, at
        for name, group in saved["groups"].items():
            self.groups[name] = Group(group["cursor"], group["holds"])
            block = self.groups[name].restore(group, block)
        return block

    def _index(self, header: Batch, file: int, record: int) -> None:
        self._positions.append(header["pos"])
        self._files.append(file)
        self._records.append(record)
        self.end = header["pos"] + len(header["sizes"])
        if header["pos"] >= self._counted:
            self.bytes += sum(header["sizes"]) + header.get("held", 0)
        for name in header.get("files", ()):
            self._hold(file, name)
        source = self.sources.setdefault(header["p"], ProducerState())
        source.count = max(source.count, header["first"] + len(header["sizes"]))

    def _hold(self, file: int, name: str) -> None:
        """Note that a file of the log refers to a file of large items."""
        self._held.setdefault(file, set()).add(name)
        writer, number = _numbered(name)
        self._newest[writer] = max(number, self._newest.get(writer, 0))

    def put(self, member: str, request: Header, block: bytes) -> int:
        """Append what is new of a batch; return how many items that is. Raise OSError where the disk is full,
        Refused where items before these are missing, or where the sizes are not those of the block."""
        source = self.sources[member]
        first, sizes = int(request["first"]), request["sizes"]
        items = cut(block, sizes)
        if sum(sizes) != len(block) or sizes != list(map(len, items)):
            raise RequestRefused(f"{len(block)} bytes came, which are not {len(sizes)} items of these sizes")
        if first > source.count:
            raise RequestRefused(f"item {first} of {member} came, but item {source.count} is the next")
        source.at = max(source.at, first + len(sizes))
        repeated = source.count - first
        if repeated >= len(sizes):
            return 0
        if repeated:
            items, sizes = items[repeated:], sizes[repeated:]
            block = b"".join(items)
        header: Batch = {"p": member, "first": source.count, "pos": self.end, "sizes": sizes}
        held = int(request.get("held", 0))
        if held:
            header["held"], header["files"] = held, request["files"]
            self._held_bytes += held
            if not self.replay and self._held_bytes > 4 * REMEMBERED:
                self.log.roll()
                self._held_bytes = 0
        place = self.log.append(header, block)
        if self._files and self._files[-1] != place.file:
            self._save_index(self._files[-1])
        self._remember(self.end, items)
        self._index(header, place.file, place.record)
        return len(sizes)

    def room(self) -> int:
        """Items that can come before producers must wait for the slowest group."""
        holding = (one for one in self.groups.values() if one.holds and not one.settled)
        cursors = [group.cursor for group in holding if group.broken_at is None]
        return max(0, self.buffer - self.end + min(cursors)) if cursors else MANY

    def limit(self, member: str) -> int:
        """Return the number of the item that this producer must not put yet: its share of the room."""
        share = -(-self.room() // max(1, len(self.here)))
        return min(MANY, self.sources[member].count + share)

    def flaw_of(self, name: str, attempt: int, *, goes_on: bool) -> Flaw:
        """Return what a successful attempt did not put; one that `goes_on` continued from a checkpoint."""
        source = self.sources[name]
        came = source.attempt == attempt
        if came and name in self.here:
            return "node", f"who put into {self.name} for {name} was killed, or still puts"
        if came and source.failed:
            return "app", f"not all was put into {self.name} for {name}: who put it failed"
        if source.at >= source.count if came else (goes_on or not source.count):
            return WHOLE
        return (
            "app",
            f"{name} put {counted(source.at if came else 0, 'item')} into {self.name}, "
            f"and an attempt before it had put {source.count}: "
            "each puts the same items from the first, or calls `resume()` and puts the rest",
        )

    def flaw_for(self, group: str, name: str) -> Flaw:
        """Return what a successful reading attempt asked for and did not get."""
        member = self.groups[group].members[name]
        if member.broken or self.groups[group].broken_at is not None:
            return "upstream", f"the stream {self.name} is broken: {member.broken or self.broken}"
        if member.reading:
            return "node", f"who read {self.name} for {name} was killed, or still reads"
        return WHOLE

    def group(self, name: str) -> Group:
        """Return a group of readers. Raise Refused if it is unknown."""
        if name not in self.groups:
            names = ", ".join(self.groups) or "none"
            raise RequestRefused(f"nobody reads {self.name} as '{name}'; known: {names}")
        return self.groups[name]

    def fetch(self, position: int, most: int) -> list[bytes]:
        """Items from a position on: 1 to `most`, of about REPLY bytes. Raise Refused where they are gone."""
        if position < self.base:
            raise RequestRefused(
                f"items below {self.base} of {self.name} are gone: it is not kept for replay"
            )
        blocks: list[bytes] = []
        room = REPLY
        for index in range(bisect_right(self._positions, position) - 1, len(self._positions)):
            start = self._positions[index]
            batch = self._recent.get(start) or self._read(index)
            skipped = position - start
            for item in batch[skipped : skipped + most - len(blocks)]:
                room -= len(item)
                if room < 0 and blocks:
                    return blocks
                blocks.append(item)
            if len(blocks) == most:
                break
            position = start + len(batch)
        return blocks

    def _read(self, index: int) -> list[bytes]:
        header, block = self.log.record(self._files[index], self._records[index])
        return cut(block, header["sizes"])

    def _remember(self, position: int, batch: list[bytes]) -> None:
        self._recent[position] = batch
        self._recent_bytes += _memory(batch)
        while self._recent_bytes > REMEMBERED and len(self._recent) > 1:
            self._recent_bytes -= _memory(self._recent.popitem(last=False)[1])

    def spent(self) -> int:
        """Return how many batches are in files that nobody needs, but the newest: 0 if all is for replay."""
        if self.replay or not self.groups or not self._files:
            return 0
        floors = [group.floor() for group in self.groups.values() if group.holds and not group.is_done]
        floor = min(floors, default=self.end)
        needed = self._files[max(0, bisect_right(self._positions, floor) - 1)]
        return bisect_left(self._files, needed)

    def without(self, spent: int) -> Counts:
        """Return what must be known about the channel when its first batches are gone."""
        return {"base": self._positions[spent], **self._counts()}

    def note_gone(self, header: Counts) -> None:
        """Take in what `without` returned."""
        self._skip_to(header["base"])
        self.end, self.bytes, self._counted = header["base"], header["bytes"], header["end"]
        self._note_counts(header)

    def drop(self, spent: int) -> None:
        """Remove the files of the first batches, and the large items that nothing else refers to."""
        for start in self._positions[:spent]:
            if start in self._recent:
                self._recent_bytes -= _memory(self._recent.pop(start))
        for file in sorted(set(self._files[:spent])):
            self._index_of(file).unlink(missing_ok=True)
            self.log.remove(file)
            self._held.pop(file, None)
        self._positions, self._files = self._positions[spent:], self._files[spent:]
        self._records = self._records[spent:]
        self._skip_to(self._positions[0])
        self.sweep()

    def _skip_to(self, base: int) -> None:
        """Items below `base` are gone: groups that nobody waits for may not have read them."""
        self.base = base
        for group in self.groups.values():
            group.cursor = max(group.cursor, base)

    def sweep(self) -> None:
        """Remove files of large items that were consumed; not one that its producer may still write to."""
        if self.replay:
            return
        held = {name for names in self._held.values() for name in names}
        for path in (self._root / self.folder).glob("items-*.bin"):
            name = f"{self.folder}/{path.name}"
            writer, number = _numbered(name)
            if name not in held and (self.closed or number < self._newest.get(writer, 0)):
                path.unlink(missing_ok=True)

    def facts(self) -> Header:
        """Return its state, as in `Connection.facts`."""
        return {
            "items": self.end,
            "bytes": self.bytes,
            "closed": self.closed and not self.broken,
            "broken": self.broken or None,
            "buffer": self.buffer,
            "producers": self._counts()["counts"],
            "groups": {
                name: {
                    "delivered": group.delivered,
                    "committed": group.committed,
                    "waiting": group.available(self.end),
                    "settled": group.settled,
                }
                for name, group in self.groups.items()
            },
        }


def _memory(batch: list[bytes]) -> int:
    """Return bytes that a batch takes, with about 100 of Python's own for an item, and 400 for the batch."""
    return sum(map(len, batch)) + 100 * len(batch) + 400


def _numbered(name: str) -> tuple[str, int]:
    """Return the writer of a file of large items, and which of its files it is."""
    writer, _, number = name.removesuffix(".bin").rpartition("-")
    return writer, int(number)


class Channels(dict[str, Channel]):
    """Channels by name, and the log of what their own logs lack: its records are those of `log.py`. A record
    takes effect when it is written, and again when a broker starts."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self._log = RecordLog(root, "broker")
        for header, place in self._log.records(self._first_needed()):
            if header["do"] == "snapshot":
                rest = memoryview(self._log.read(place))
                for saved in header["channels"]:
                    rest = self._add(saved).restore(saved, rest)
            else:
                self._fold(cast("ChannelRecord", header))
        for channel in self.values():
            channel.load()
            self.remove_spent(channel)

    def write(self, header: ChannelRecord) -> None:
        """Write a record. Raise OSError without room; then nothing has changed."""
        self._append(header)
        self._fold(header)

    def has_opened(self, record: ChannelRecord) -> bool:
        """Return whether a record "open" would change nothing."""
        channel = self.get(record["c"])
        if channel is None or channel.closed or channel.broken:
            return False
        members_of = {name: group.members.keys() for name, group in channel.groups.items() if group.holds}
        return (channel.buffer, channel.replay) == (record["buffer"], record["replay"]) and all(
            name in members_of and members_of[name] >= set(members)
            for name, members in record["groups"].items()
        )

    def remove_spent(self, channel: Channel) -> None:
        """Remove from the disk what nobody needs any longer."""
        spent = channel.spent()
        if spent:
            self._append({"do": "gone", "c": channel.name, **channel.without(spent)})
            channel.drop(spent)

    def close(self) -> None:
        self._log.close()
        for channel in self.values():
            channel.log.close()

    def _append(self, header: Mapping[str, object]) -> None:
        """Begin a new file with a snapshot, in place of those before it, once one is full."""
        if self._log.is_full:
            self._log.roll()
            block = bytearray()
            channels = [channel.snapshot(block) for channel in self.values()]
            self._log.append({"do": "snapshot", "channels": channels}, bytes(block))
            for number in self._log.files[:-1]:
                self._log.remove(number)
        self._log.append(header)

    def _first_needed(self) -> int:
        """Return the newest file that begins with a snapshot."""
        for number in reversed(self._log.files):
            header, _ = next(self._log.records_of(number), ({"do": "half"}, None))
            if header["do"] == "snapshot":
                return number
        return 0

    def _add(self, header: ChannelRecord | ChannelSnapshot) -> Channel:
        channel = Channel(self._root, len(self) + 1, header["c"], header["buffer"], header["replay"])
        self[channel.name] = channel
        return channel

    def _fold(self, header: ChannelRecord) -> None:
        if header["do"] == "open":
            self._fold_open(header)
            return
        channel = self[header["c"]]
        match header["do"]:
            case "close":
                channel.closed = True
            case "break":
                channel.broken = channel.broken or header["why"]
                for name in header["groups"]:
                    group = channel.groups[name]
                    group.broken_at = header["at"] if group.broken_at is None else group.broken_at
            case "attempt" | "place":
                source = channel.sources.setdefault(header["p"], ProducerState())
                source.attempt, source.at = header["a"], header["at"]
            case "join":
                group = channel.groups.setdefault(header["g"], Group(header["cursor"], header["holds"]))
                group.add([header["m"]])
            case "skip":
                channel.groups[header["g"]].cursor = header["cursor"]
            case "gone":
                channel.note_gone(header)
            case _:
                _fold_member(channel.groups[header["g"]], header)

    def _fold_open(self, header: ChannelRecord) -> None:
        channel = self.get(header["c"]) or self._add(header)
        channel.buffer, channel.replay = header["buffer"], header["replay"]
        channel.closed, channel.broken = False, ""
        for group in channel.groups.values():
            group.broken_at = None
        for name, members in header["groups"].items():
            channel.groups.setdefault(name, Group(channel.base)).holds = True
            channel.groups[name].add(members)


def _fold_member(group: Group, header: ChannelRecord) -> None:
    name = header["m"]
    member = group.members[name]
    match header["do"]:
        case "begin":
            group.begin(name, header["a"])
        case "give":
            group.give(name, header["pos"], header["n"])
        case "undo":
            group.undo(name, header["pos"], header["n"])
        case "seat":
            member.at = header["at"]
        case "tell":
            member.broken = header["why"]
        case "commit":
            member.commit(header["at"])
        case "settle":
            group.settle(name, header["good"])
