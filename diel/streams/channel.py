"""One channel of a stream: its items in the order in which they came, its producers, its groups."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from diel.streams.group import Group
from diel.streams.log import RecordLog
from diel.streams.message import Header, cut

MANY = 2**53
"""A credit without a bound: the largest whole number that JSON carries everywhere."""
REPLY = 512 * 1024
"""Bytes of items in one answer, beyond the first item."""
REMEMBERED = 8 * 1024 * 1024
"""Bytes of the newest batches that are kept in memory; older ones are read from the log."""


class Batch(NamedTuple):
    sizes: list[int]
    items: list[bytes]


class Source:
    """A producer, over all its attempts."""

    def __init__(self) -> None:
        self.attempt = 0
        self.count = 0
        """Items that are in the channel."""
        self.at = 0
        """Where this attempt is: it puts again what earlier ones put."""


class Channel:
    """Items of a channel on the disk and where they stand; who puts, who gets.

    The channel's own log has one record a batch: {"p": producer, "first": its number there, "pos": position
    in the channel, "sizes": […], "files": […], "held": bytes in those files}.
    """

    def __init__(self, root: Path, number: int, name: str, buffer: int, replay: bool) -> None:
        self.name = name
        self.folder = f"channels/{number:04d}"
        self.buffer = buffer
        self.replay = replay
        self.closed = False
        self.groups: dict[str, Group] = {}
        self.sources: dict[str, Source] = {}
        self.here: set[str] = set()
        """Producers that share in the room."""
        self.base = 0
        """The lowest position that is still there."""
        self.end = 0
        self.bytes = 0
        self._root = root
        self.log = RecordLog(root / self.folder, "items")
        self._positions = array("Q")
        self._files = array("I")
        self._records = array("Q")
        self._held: dict[int, set[str]] = {}
        self._newest: dict[str, int] = {}
        self._held_bytes = 0
        self._recent: OrderedDict[int, Batch] = OrderedDict()
        self._recent_bytes = 0

    def load(self) -> None:
        """Finds the items that are on the disk."""
        for header, place in self.log.records():
            self._index(header, place.file, place.record)

    def _index(self, header: Header, file: int, record: int) -> None:
        self._positions.append(header["pos"])
        self._files.append(file)
        self._records.append(record)
        self.end = header["pos"] + len(header["sizes"])
        self.bytes += sum(header["sizes"]) + header.get("held", 0)
        for name in header.get("files", ()):
            self._held.setdefault(file, set()).add(name)
            writer, number = _numbered(name)
            self._newest[writer] = max(number, self._newest.get(writer, 0))
        source = self.sources.setdefault(header["p"], Source())
        source.count = max(source.count, header["first"] + len(header["sizes"]))

    # --- producers ---------------------------------------------------------------------------------

    def put(self, member: str, request: Header, block: bytes) -> int:
        """Appends what is new of a batch; returns how many items that is.

        Raises OSError where the disk is full, ValueError where items before these are missing.
        """
        source = self.sources[member]
        first, sizes = int(request["first"]), request["sizes"]
        after = first + len(sizes)
        if first > source.count:
            raise ValueError(f"item {first} of {member} came, but item {source.count} is the next")
        source.at = max(source.at, after)
        known = source.count - first
        if known >= len(sizes):
            return 0
        if known:
            block, sizes = block[sum(sizes[:known]) :], sizes[known:]
        header: Header = {"p": member, "first": source.count, "pos": self.end, "sizes": sizes}
        held = int(request.get("held", 0))
        if held:
            header |= {"held": held, "files": request["files"]}
            self._held_bytes += held
            if not self.replay and self._held_bytes > 4 * REMEMBERED:
                self.log.roll()
                self._held_bytes = 0
        place = self.log.append(header, block)
        self._remember(self.end, Batch(sizes, cut(block, sizes)), len(block))
        self._index(header, place.file, place.record)
        return len(sizes)

    def room(self) -> int:
        """Items that may come before the slowest group holds the producers up."""
        waiting = [
            self.end - group.cursor for group in self.groups.values() if group.holds and not group.settled
        ]
        return max(0, self.buffer - max(waiting)) if waiting else MANY

    def limit(self, member: str) -> int:
        """The number of the item that this producer must not put yet: its share of the room."""
        source = self.sources[member]
        room = self.room()
        return min(MANY, source.count + -(-room // max(1, len(self.here))))

    # --- consumers ---------------------------------------------------------------------------------

    def fetch(self, position: int, most: int) -> list[bytes]:
        """Items from a position on: at least one, at most `most`, not many more bytes than REPLY.

        Raises ValueError where they are gone from the disk.
        """
        if position < self.base:
            raise ValueError(f"items below {self.base} of {self.name} are gone: it is not kept for replay")
        found: list[bytes] = []
        room = REPLY
        for start, batch in self._batches(position):
            skipped = position - start
            for item in batch.items[skipped : skipped + most - len(found)]:
                room -= len(item)
                if room < 0 and found:
                    return found
                found.append(item)
            if len(found) == most:
                break
            position = start + len(batch.items)
        return found

    def _batches(self, position: int) -> Iterator[tuple[int, Batch]]:
        for index in range(bisect_right(self._positions, position) - 1, len(self._positions)):
            start = self._positions[index]
            yield start, self._recent.get(start) or self._read(index)

    def _read(self, index: int) -> Batch:
        header, block = self.log.record(self._files[index], self._records[index])
        batch = Batch(header["sizes"], cut(block, header["sizes"]))
        return batch

    def _remember(self, position: int, batch: Batch, size: int) -> None:
        self._recent[position] = batch
        self._recent_bytes += size
        while self._recent_bytes > REMEMBERED and len(self._recent) > 1:
            _, old = self._recent.popitem(last=False)
            self._recent_bytes -= sum(old.sizes)

    # --- room on the disk --------------------------------------------------------------------------

    def spent(self) -> list[int]:
        """Files of the log that nobody needs any more; none where the stream is kept for replay."""
        if self.replay or not self.groups:
            return []
        floors = [group.floor() for group in self.groups.values() if group.holds and not group.settled]
        floor = min(floors, default=self.end)
        needed = self._file_at(floor)
        if not self._files or self._files[0] == needed:
            return []
        found: list[int] = []
        for index, file in enumerate(self._files):
            following = self._positions[index + 1] if index + 1 < len(self._positions) else self.end
            if file == self.log.file or following > floor:
                break
            if not found or found[-1] != file:
                found.append(file)
        # A file of which a batch is still needed was met by an earlier batch.
        return [file for file in found if file != needed]

    def _file_at(self, position: int) -> int:
        index = bisect_right(self._positions, position) - 1
        return self._files[index] if 0 <= index < len(self._files) else self.log.file

    def drop(self, files: list[int]) -> None:
        """Removes files of the log, and the files of large items that nothing else speaks of."""
        first = next(i for i, file in enumerate(self._files) if file not in files)
        for start in self._positions[:first]:
            old = self._recent.pop(start, None)
            self._recent_bytes -= sum(old.sizes) if old else 0
        self._positions, self._files = self._positions[first:], self._files[first:]
        self._records = self._records[first:]
        self.skip_to(self._positions[0])
        for file in files:
            self.log.remove(file)
            self._held.pop(file, None)
        self.sweep()

    def skip_to(self, base: int) -> None:
        """Items below `base` are gone: groups that hold nobody up may not have read them."""
        self.base = base
        for group in self.groups.values():
            group.cursor = max(group.cursor, base)

    def sweep(self) -> None:
        """Removes files of large items that were consumed; not one that its producer may still write to."""
        if self.replay:
            return
        kept = {name for names in self._held.values() for name in names}
        for path in (self._root / self.folder).glob("items-*.bin"):
            name = f"{self.folder}/{path.name}"
            writer, number = _numbered(name)
            if name not in kept and (self.closed or number < self._newest.get(writer, 0)):
                path.unlink(missing_ok=True)

    def first_kept(self, files: list[int]) -> int:
        """The lowest position that remains once these files are gone."""
        return next(
            position for position, file in zip(self._positions, self._files, strict=True) if file not in files
        )

    def facts(self) -> dict[str, Any]:
        return {
            "items": self.end,
            "bytes": self.bytes,
            "closed": self.closed,
            "buffer": self.buffer,
            "producers": {name: source.count for name, source in self.sources.items()},
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


def _numbered(name: str) -> tuple[str, int]:
    """The writer of a file of large items, and which of its files it is."""
    writer, _, number = name.removesuffix(".bin").rpartition("-")
    return writer, int(number)
