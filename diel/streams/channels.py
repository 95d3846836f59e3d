"""The channels of a run, and the log of what the channels' own logs lack.

Its records (`records.py`) tell what was opened or broken, where each producer and consumer is, who was given
which items or learnt what broke, and which items are no longer on the disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_never, cast

from diel.streams.channel import Channel, ProducerState
from diel.streams.group import Group
from diel.streams.log import RecordLog
from diel.streams.records import ChannelOpened, ChannelRecord, ChannelSnapshot, OfMember


class Channels(dict[str, Channel]):
    """Channels by name. A record takes effect when it is written, and again when a broker starts."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self._log = RecordLog(root, "broker")
        for header, place in self._log.records(self._first_needed()):
            if header["do"] == "snapshot":
                self._restore(header["channels"], self._log.read(place))
            else:
                self._fold(cast("ChannelRecord", header))
        for channel in self.values():
            channel.load()
            self.remove_spent(channel)

    def write(self, header: ChannelRecord) -> None:
        """Writes a record. Raises OSError without room; then nothing has changed."""
        self._append(header)
        self._fold(header)

    def has_opened(self, wanted: ChannelOpened) -> bool:
        """Whether a record "open" would change nothing."""
        channel = self.get(wanted["c"])
        if channel is None or channel.closed or channel.broken:
            return False
        known = {name: group.members.keys() for name, group in channel.groups.items() if group.holds}
        return (channel.buffer, channel.replay) == (wanted["buffer"], wanted["replay"]) and all(
            name in known and known[name] >= set(members) for name, members in wanted["groups"].items()
        )

    def remove_spent(self, channel: Channel) -> None:
        """Removes from the disk what nobody needs any longer."""
        spent = channel.spent()
        if spent:
            self._append({"do": "gone", "c": channel.name, **channel.without(spent)})
            channel.drop(spent)

    def close(self) -> None:
        self._log.close()
        for channel in self.values():
            channel.log.close()

    def _append(self, header: ChannelRecord) -> None:
        """Each file begins with a snapshot, and replaces those before it."""
        if self._log.is_full:
            self._log.roll()
            block = bytearray()
            channels = [channel.snapshot(block) for channel in self.values()]
            self._log.append({"do": "snapshot", "channels": channels}, bytes(block))
            for number in self._log.files[:-1]:
                self._log.remove(number)
        self._log.append(header)

    def _first_needed(self) -> int:
        """The newest file that begins with a snapshot."""
        for number in reversed(self._log.files):
            header, _ = next(self._log.records_of(number), ({"do": "half"}, None))
            if header["do"] == "snapshot":
                return number
        return 0

    def _restore(self, channels: list[ChannelSnapshot], block: bytes) -> None:
        rest = memoryview(block)
        for saved in channels:
            rest = self._add(saved).restore(saved, rest)

    def _add(self, header: ChannelOpened | ChannelSnapshot) -> Channel:
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
            case "begin" | "give" | "undo" | "seat" | "tell" | "commit" | "settle":
                _fold_member(channel.groups[header["g"]], header)
            case never:
                assert_never(never)

    def _fold_open(self, header: ChannelOpened) -> None:
        channel = self.get(header["c"]) or self._add(header)
        channel.buffer, channel.replay = header["buffer"], header["replay"]
        channel.closed, channel.broken = False, ""
        for group in channel.groups.values():
            group.broken_at = None
        for name, members in header["groups"].items():
            channel.groups.setdefault(name, Group(channel.base)).holds = True
            channel.groups[name].add(members)


def _fold_member(group: Group, header: OfMember) -> None:
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
        case never:
            assert_never(never)
