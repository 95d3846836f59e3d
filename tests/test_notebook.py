"""A run in a notebook: in a real kernel where one is installed, and as the HTML that any notebook gets."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import diel
from tests.handmade import Handmade

FLOW = """
axes: {t: {range: 4}}
stages: {"sim": {over: [t], command: [x]}}
"""


@pytest.fixture
def run(tmp_path: Path) -> diel.Run:
    made = Handmade(tmp_path, FLOW).stage("sim", 4).done("sim", 0).done("sim", 1).failed("sim", 2)
    return diel.open_run(made.paths.root)


def test_a_run_shows_itself_as_its_page_in_a_frame_without_rights(run: diel.Run) -> None:
    pytest.importorskip("vl_convert", reason="pages need the extra `report`")
    frame = run._repr_html_()
    inner = re.fullmatch(
        r'<iframe title="w-1" sandbox="([a-z -]+)" srcdoc="([^"]+)" style="[^"]+"></iframe>', frame
    )
    assert inner is not None
    assert "same-origin" not in inner[1]
    assert "<title>w-1 interrupted</title>" in html.unescape(inner[2])


def test_without_the_extra_it_shows_a_card(run: diel.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    card = run._repr_html_()
    assert card.startswith("<b>w-1</b> interrupted<table>")
    assert "2 of 4 done; 1 waiting; 1 failed" in card
    assert "script" not in card


CELLS = """
import diel
run = diel.run("w.yaml")
run
"""


@pytest.mark.filterwarnings("ignore")
def test_a_notebook_shows_how_far_a_run_is_and_then_the_run(tmp_path: Path) -> None:
    """A kernel of its own, as Jupyter starts one."""
    manager: Any = pytest.importorskip(
        "jupyter_client.manager", reason="Jupyter's kernel takes 82 MB: pip install ipykernel nbclient"
    )
    pytest.importorskip("ipykernel")
    (tmp_path / "w.yaml").write_text("diel: 1\nname: w\nstages: {a: {command: echo hello}}\n")
    kernel, client = manager.start_new_kernel(cwd=str(tmp_path))
    try:
        shown: list[tuple[str, str]] = []

        def hear(message: dict[str, Any]) -> None:
            content = message["content"]
            assert message["msg_type"] != "error", content
            if "data" in content:
                shown.append((message["msg_type"], content["data"].get("text/html", "")))

        client.execute_interactive(CELLS, output_hook=hear, timeout=60)
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
    assert [kind for kind, _ in shown if kind != "update_display_data"] == ["display_data", "execute_result"]
    updates = [text for kind, text in shown if kind == "update_display_data"]
    assert updates[-1].startswith("<b>w-1</b> succeeded")
    assert "1 of 1 done" in updates[-1]
    assert "w-1" in shown[-1][1]
