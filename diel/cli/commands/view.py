"""`diel view`: a run while it goes on, in the terminal or in a browser."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from diel.cli.options import Duration, runs_option
from diel.cli.target import run_argument
from diel.errors import UsageError
from diel.project.runs import find_run


@click.command("view")
@run_argument
@runs_option
@click.option("--interval", default="1s", type=Duration(), metavar="1s", help="How often to look (1s).")
@click.option("--web", is_flag=True, help="Serve its page to a browser, on a socket that only you can open.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="With --web: on this port of 127.0.0.1, behind a token; 0 takes a free one.",
)
@click.option(
    "--idle",
    default="30m",
    type=Duration(),
    metavar="30m",
    help="With --web: end when unasked for so long.",
)
def command(run: str, runs: Path, interval: float, web: bool, port: int | None, idle: float) -> int:
    """Shows stages, tasks, charts, blocks and failures as they change, and follows what tasks print. It only
    reads files, and nothing that runs knows of it.

    Keys: 1 to 6 choose stages, tasks, charts, blocks, failures, and the panels of the page in text. Tab leads
    to the next part, Enter opens, Esc leads back and to the other runs. `e` starts `diel explain`; `c` and
    `r` start `diel cancel` and `diel resume`, after asking. `q` leaves. A mouse does as well.
    """
    paths = find_run(runs, run)
    if web:
        from diel.view.server import serve  # the page, which the terminal does not need

        return serve(paths, port, idle)
    if port is not None:
        raise UsageError("--port is of the page for a browser: add --web")
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        other = f"`diel status {paths.run_id}` prints the state, `--watch` follows it"
        raise UsageError(f"view needs a terminal whose cursor moves; {other}")
    lacking = [name for name in ("textual", "plotext") if find_spec(name) is None]
    if lacking:
        raise UsageError(
            f"view draws with {' and '.join(lacking)}: {sys.executable} -m pip install 'diel[view]'"
        )
    from diel.view.app import show  # an extra, and slow to load

    show(runs, paths, max(0.1, interval))
    return 0
