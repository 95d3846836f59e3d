"""A file that a function keeps open is no artifact yet: its end may be missing, or it may change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.throwaway import Project

TABLE = """
import os, zipfile
from pathlib import Path

KEEP = []

class Writer:
    def __init__(self, name):
        self.file = open(name, "w")
        self.me = self

def cycle() -> dict:
    Writer("t.csv").file.write("1\\n" * 3000)
    return {"t": Path("t.csv").absolute()}

def archive() -> dict:
    writer = Writer("own.log")
    writer.zip = zipfile.ZipFile("t.csv", "w")
    writer.zip.writestr("a", "1")
    return {"t": Path("t.csv").absolute()}

def kept() -> dict:
    KEEP.append(open("t.csv", "w"))
    KEEP[-1].write("1\\n" * 3000)
    return {"t": Path("t.csv").absolute()}

def folder() -> dict:
    os.mkdir("d")
    KEEP.append(open("d/t.csv", "wb"))
    return {"t": Path("d").absolute()}

def beside() -> dict:
    Path("t.csv").write_text("1\\n" * 3000)
    KEEP.append(open("own.log", "w"))
    KEEP.append(open("t.csv"))
    return {"t": Path("t.csv").absolute()}

def many(t: Path) -> dict:
    return {"n": len(t.read_text().splitlines())}
"""
FLOW = """
stages:
  make: {{module: "table:{name}", isolation: {isolation}}}
  read: {{module: "table:many", inputs: {{t: make.t}}}}
"""


@pytest.mark.parametrize("isolation", ["null", "process"])
@pytest.mark.parametrize(
    ("name", "is_whole"), [("cycle", 1), ("archive", 0), ("kept", 0), ("folder", 0), ("beside", 1)]
)
def test_what_is_still_open_is_closed_or_fails_by_name(
    tmp_path: Path, name: str, isolation: str, is_whole: int
) -> None:
    project = Project(tmp_path).machine("one", 1).workflow(FLOW.format(name=name, isolation=isolation))
    project.module("table", TABLE)
    run = project.run("--site", "one", "--no-cache", code=0 if is_whole else 1)
    if is_whole:
        assert [done["values"] for done in run.records("done", "read")] == [{"n": 3000}]
        return
    (failed,) = run.records("fail", "make")
    assert (failed["class"], failed["message"]) == (
        "app", "`t.csv` is still open: close it, or write it in a `with`"
    )  # fmt: skip
