"""A real browser without a network: what a page shows in it, and what it says in its console."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from shutil import which
from typing import NamedTuple

PROGRAM = which("chromium-headless-shell") or which("chromium") or which("google-chrome")
MISSING = "there is no Chromium: apt-get install chromium-headless-shell"
_OFFLINE = ("--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking", "--no-sandbox")


class Opened(NamedTuple):
    """A page after its scripts ran."""

    dom: str
    console: list[str]

    def drawn(self) -> set[str]:
        """The charts that were drawn, by the id of their place."""
        places = re.findall(r"<div class=\"chart[^>]*>", self.dom)
        return {found[1] for place in places if 'data-drawn="yes"' in place and (found := _ID.search(place))}


_ID = re.compile(r'id="([^"]*)"')


def look_at(page: Path, *options: str) -> Opened:
    """Opens a file; `options` are the browser's, such as a size of its window."""
    assert PROGRAM is not None
    with tempfile.TemporaryDirectory() as profile:
        command = [PROGRAM, "--headless", "--disable-gpu", *_OFFLINE, f"--user-data-dir={profile}", *options]
        command += ["--enable-logging=stderr", "--log-level=0", "--virtual-time-budget=20000", "--dump-dom"]
        done = subprocess.run(
            [*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=True
        )
    said = [line.partition("CONSOLE")[2] for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return Opened(done.stdout, said)
