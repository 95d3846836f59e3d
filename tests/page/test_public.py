"""A page for the public: neither host nor user nor a path outside the run is left in it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from diel.page.panel import Alternatives, Bar, Facts, Grid, Log, Panel, Part, Picture, Plot, Sketch, Text
from diel.page.public import Public, plain_png
from diel.page.seen import Seen
from tests.handmade import Handmade

FLOW = "stages: {sim: {command: [x]}}"


@pytest.fixture
def public(tmp_path: Path) -> Public:
    """Of a run by `ada` on `cray-07`, with a worker on `node`."""
    run = Handmade(tmp_path, FLOW)
    text = run.paths.run_file.read_text().replace('"here"', '"cray-07"').replace('"me"', '"ada"')
    run.paths.run_file.write_text(text)
    return Public(Seen(run.paths))


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ("cannot open /scratch/ada/data/x.npy: no", "cannot open …/x.npy: no"),
        ("opening /scratch//data on it", "opening …/data on it"),
        ("see file:///scratch/ada/x.txt, sftp://cray/data/x", "see …/x.txt, …/x"),
        ("PATH=//scratch/x", "PATH=…/x"),
        ("[fe80::1ff:fe23:4567:890a]:80, ::1 at 12:34:56", "[ADDRESS]:80, ADDRESS at 12:34:56"),
        ("~/secret/key and ~ada/x", "…/key and ~USER/x"),
        ("Ada ran it on CRAY-07.site.org, not adamant", "USER ran it on HOST.site.org, not adamant"),
        ("worker-0001-node-7-abc at 10.1.2.3:4000", "worker-0001-HOST-7-abc at ADDRESS:4000"),
        ("1/2 of https://diel.org/docs, 3.5/s", "1/2 of https://diel.org/docs, 3.5/s"),
    ],
)
def test_a_text_keeps_its_sense(public: Public, told: str, left: str) -> None:
    assert public.text(told) == left


def test_a_path_in_the_run_stays_as_one_from_its_directory(public: Public, tmp_path: Path) -> None:
    assert public.text(f"see {tmp_path}/runs/w-1/tasks/sim/0/out") == "see tasks/sim/0/out"


def test_every_part_of_a_panel_is_gone_through(public: Public) -> None:
    told = "/scratch/ada/x on cray-07"
    table = Grid(told, [told], [[told, 1.5, None, True, Bar([("done", 1.0)], told)]])
    spec = {
        "data": {"values": [{"ada": told, "y": 1}]},
        "mark": "line",
        "title": told,
        "scale": {"domain": [told]},
    }
    chart = Plot(told, spec, table)
    parts: list[Part] = [
        Text(told, "bad"),
        Facts([("by", told)]),
        chart,
        Alternatives(told, [(told, chart)]),
        Sketch(told, f"<svg><text>{told}</text></svg>", table),
        Log(told, told),
        Picture(told, told, "image/svg+xml", f"<svg><!-- {told} --></svg>".encode()),
    ]
    found = public.panel(Panel("all", "All", parts))
    text = repr(found)
    assert "/scratch" not in text
    assert "cray" not in text
    assert text.count("ada") == 2, "the key of a column stays, in both charts"
    assert [type(part) for part in found.parts] == [type(part) for part in parts]
    made = found.parts[2]
    assert isinstance(made, Plot)
    assert made.spec["mark"] == "line"
    assert made.table.rows[0][1:4] == [1.5, None, True]


def test_a_png_loses_what_programs_noted_in_it() -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head, end = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", bytes(13)), chunk(b"IEND", b"")
    noted = head + chunk(b"tEXt", b"Author\0ada") + chunk(b"IDAT", b"abc") + chunk(b"eXIf", b"x") + end
    assert plain_png(noted) == head + chunk(b"IDAT", b"abc") + end
