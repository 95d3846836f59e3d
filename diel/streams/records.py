"""Records of the channels' logs, by what they do, and the snapshots between them."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class Seat(TypedDict):
    """A consumer: its channel, group and name."""

    c: str
    g: str
    m: str


class ChannelOpened(TypedDict):
    do: Literal["open"]
    c: str
    buffer: int
    replay: bool
    groups: dict[str, list[str]]


class ChannelClosed(TypedDict):
    do: Literal["close"]
    c: str


class ChannelBroken(TypedDict):
    do: Literal["break"]
    c: str
    groups: list[str]
    why: str
    at: int


class ProducerStands(TypedDict):
    """The place of a producer's attempt: its beginning, or where it stopped."""

    do: Literal["attempt", "place"]
    c: str
    p: str
    a: int
    at: int


class MemberJoined(Seat):
    do: Literal["join"]
    cursor: int
    holds: bool


class MemberSkipped(Seat):
    do: Literal["skip"]
    cursor: int


class MemberBegan(Seat):
    do: Literal["begin"]
    a: int


class MemberGiven(Seat):
    """Items from a position on went to a consumer; `undo` where they did not reach it."""

    do: Literal["give", "undo"]
    pos: int
    n: int


class MemberStands(Seat):
    do: Literal["seat", "commit"]
    at: int


class MemberTold(Seat):
    do: Literal["tell"]
    why: str


class MemberSettled(Seat):
    do: Literal["settle"]
    good: bool


class Counts(TypedDict):
    """How many items and bytes came, and how many items of each producer."""

    end: int
    bytes: int
    counts: dict[str, int]


class Rest(Counts):
    """What must be known of a channel whose items below `base` are gone."""

    base: int


class ChannelGone(Rest):
    do: Literal["gone"]
    c: str


OfMember = MemberBegan | MemberGiven | MemberStands | MemberTold | MemberSettled
ChannelRecord = (
    ChannelOpened | ChannelClosed | ChannelBroken | ProducerStands | MemberJoined | MemberSkipped | OfMember
    | ChannelGone
)  # fmt: skip


class Batch(TypedDict):
    """Items that a producer put together, in the log of their channel."""

    p: str
    first: int
    """The number that the producer gave the first."""
    pos: int
    """The position of the first in the channel."""
    sizes: list[int]
    held: NotRequired[int]
    """Bytes in the files of large items, which are `files`."""
    files: NotRequired[list[str]]


class BatchIndex(Counts):
    """Of a full file of batches."""

    held: list[str]
    batches: int


class GroupSnapshot(TypedDict):
    cursor: int
    holds: bool
    members: dict[str, list[int]]
    unsettled: list[str]
    returned: list[tuple[int, int]]
    good: NotRequired[list[str]]
    broken_at: NotRequired[int | None]
    broken: NotRequired[dict[str, str]]


class ChannelSnapshot(Rest):
    c: str
    buffer: int
    replay: bool
    closed: bool
    broken: NotRequired[str]
    sources: dict[str, list[int]]
    groups: dict[str, GroupSnapshot]
