"""Nothing is lost, doubled or left, whatever is killed: the campaign in a short form.

`python -m tests.campaign` is the long one; both print their seed and a table of kills.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.campaign.campaign import campaign
from tests.campaign.descent import Descent, told
from tests.campaign.disturbed import GONE, Place
from tests.campaign.flows import FLOWS
from tests.cluster import cluster
from tests.descendants import alive
from tests.throwaway import wait_for

HIDDEN = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.execve(sys.executable, ["something else", "-c", "import time; time.sleep(60)"], {})
"""


@pytest.mark.parametrize("flow", ["sweep", "search", "stream"])
def test_a_run_survives_two_kills(tmp_path: Path, flow: str) -> None:
    tally = campaign(tmp_path, "1", kills=2, each=2, only=[flow])
    print(tally.table())
    assert not tally.wrong
    assert len(tally.kills) == 2


@pytest.mark.skipif(bool(cluster.missing()), reason=cluster.missing())
def test_a_run_in_blocks_survives_two_kills(tmp_path: Path) -> None:
    tally = campaign(tmp_path, "1", kills=2, each=2, only=["sweep"], blocks=True)
    print(tally.table())
    assert not tally.wrong


def test_a_process_is_found_whatever_session_title_and_environment_it_gave_itself() -> None:
    with Descent() as descent:
        subprocess.run([sys.executable, "-c", HIDDEN], check=True)
        wait_for(
            lambda: [p for p in descent.processes() if p.environ() == {} and p.ppid() == psutil.Process().pid]
        )
        (hidden,) = descent.processes()
        assert hidden.cmdline()[0] == "something else"
        assert not descent.is_empty_within(0.2)
    assert not alive(hidden)


def test_what_was_there_before_is_none_of_it() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        with Descent() as descent:
            assert descent.processes() == []
        time.sleep(0)
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize("flow", ["sweep", "stream"])
def test_nothing_of_a_run_on_one_machine_outlives_its_controller_for_long(tmp_path: Path, flow: str) -> None:
    """Its tasks end well, and are committed, but for those that streams join: nobody closes their streams."""
    place = Place(tmp_path, FLOWS[flow], 10)
    with Descent() as descent:
        process = place.begin("run", "flow.yaml", "--site", "wide", "--quiet")
        descent.own(process.pid)
        wait_for(lambda: (tmp_path / "marks").read_text().count("began") >= 5)
        process.kill()
        process.wait()
        assert descent.is_empty_within(GONE), [told(left) for left in descent.processes()]
