"""Streams between tasks that run together: who puts where, who gets what, and when one is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.tasks.link import Verdict
from diel.tasks.stream import StreamLink, is_cut_by_user
from tests.controller.bench import Bench

FLOW = """
axes: {seed: {range: 2}, reader: {range: 2}}
stages:
  make: {over: [seed], command: [make], outputs: {samples: {stream: true}}}
  learn: {over: [seed, reader], command: [learn], inputs: {got: {from: make.samples, share: SHARE}}}
"""


def wide(folder: Path, text: str) -> Bench:
    """On a machine with room for all that runs together."""
    (folder / "schedulers").mkdir()
    site = "name: local\nscheduler: local\npools: {here: {cores: 8}}\n"
    (folder / "schedulers" / "local.yaml").write_text(site)
    return Bench(folder, text)


def bench_of(folder: Path, share: str = "false") -> Bench:
    return wide(folder, FLOW.replace("SHARE", share))


def link_of(bench: Bench) -> StreamLink:
    (link,) = (link for link in bench.stages.into["learn"] if isinstance(link, StreamLink))
    return link


@pytest.mark.parametrize(
    ("share", "groups"),
    [
        ("false", ["learn.got/0", "learn.got/1", "learn.got/2", "learn.got/3"]),
        ("true", ["learn.got/0", "learn.got/0", "learn.got/1", "learn.got/1"]),
    ],
)
def test_a_channel_is_one_points_and_readers_get_all_items_or_share_them(
    tmp_path: Path, share: str, groups: list[str]
) -> None:
    bench = bench_of(tmp_path, share)
    puts = [bench.resolve("make", index).streams for index in range(2)]
    assert puts == [{"samples": {"role": "put", "channel": f"make.samples/{seed}"}} for seed in range(2)]
    gets = []
    for index in range(4):
        streams = bench.resolve("learn", index).streams
        assert streams is not None
        gets.append((streams["got"]["channel"], streams["got"]["group"]))
    channels = ["make.samples/0", "make.samples/0", "make.samples/1", "make.samples/1"]
    assert gets == list(zip(channels, groups, strict=True))


def test_nobody_waits_for_the_others_end(tmp_path: Path) -> None:
    link = link_of(bench_of(tmp_path))
    assert [link.verdict(link.group_of_downstream(index)) for index in range(4)] == [Verdict.READY] * 4


def test_a_producer_that_failed_cuts_its_readers_off_and_no_others(tmp_path: Path) -> None:
    bench = bench_of(tmp_path)
    link = link_of(bench)
    bench.done("make", 1)
    bench.fail("make", 0)
    assert [link.is_cut(index) for index in range(2)] == [True, False]
    broken = [
        link.broken_by(group, index)
        for index, group in enumerate(map(link.group_of_upstream, range(2)))
        if group
    ]
    assert broken == [{"learn.got/0": ["learn/0"], "learn.got/1": ["learn/1"]}, {}]


def test_readers_of_a_cancelled_producer_are_cancelled_with_it(tmp_path: Path) -> None:
    bench = bench_of(tmp_path)
    bench.cancelled("make", 0)
    bench.fail("make", 1)
    into = bench.stages.into["learn"]
    assert [is_cut_by_user(into, index) for index in range(4)] == [True, True, False, False]


def test_each_rank_of_a_task_is_a_member(tmp_path: Path) -> None:
    text = """
    stages:
      make: {command: [make], resources: {ranks: 2}, outputs: {samples: {stream: true}}}
      learn: {command: [learn], resources: {ranks: 2}, inputs: {got: make.samples}}
    """
    bench = wide(tmp_path, text)
    assert link_of(bench).readers(()) == {"learn.got/0": ["learn/0.0", "learn/0.1"]}
    streams = bench.resolve("make").streams
    assert streams is not None
    assert streams["samples"]["ranks"] == "2"
