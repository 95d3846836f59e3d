"""A stream whose producer fails is broken, not ended: what read it has no result, until it is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.project import Project, Run

SITE = "name: wide\nscheduler: local\npools:\n  local: {cores: 4}\n"
MODULES = """
    import os
    from pathlib import Path
    from diel.errors import StreamBroken

    @diel.module(kind="simulation")
    def make(context: diel.Context, ok: str, seed: int = 0, count: int = 6) -> dict:
        out = context.stream("s")
        for number in range(count):
            assert number < 3 or seed != 1 or os.path.exists(ok), "it is not ready"
            out.put([seed, number])
        return {"made": count}

    @diel.module(kind="analysis")
    def count(context: diel.Context) -> dict:
        return {"n": len(list(context.stream("s")))}

    @diel.module(kind="analysis")
    def swallow(context: diel.Context) -> dict:
        got = []
        try:
            for item in context.stream("s"):
                got.append(item)
        except StreamBroken as error:
            (context.run_dir / "told").write_text(str(error))
        return {"n": len(got)}

    @diel.module(kind="simulation")
    def relay(context: diel.Context) -> dict:
        for item in context.stream("s"):
            context.stream("s2").put(item)
        return {}

    @diel.module(kind="analysis")
    def after(n: int) -> dict:
        return {"n": n}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path).module("ends", MODULES)
    (tmp_path / "schedulers").mkdir()
    (tmp_path / "schedulers" / "wide.yaml").write_text(SITE, encoding="utf-8")
    return made


def run(project: Project, text: str, *words: str, code: int = 0) -> Run:
    text = text.replace("OK", str(project.folder / "ok"))
    return project.workflow(text).run("--site", "wide", *words, code=code)


def heal(project: Project) -> str:
    """What was missing is there: the run goes on to its end."""
    (project.folder / "ok").touch()
    project.diel("resume", "--quiet")
    return project.diel("status")


def streams(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(project.diel("status", "--json"))["streams"]
    return found


def test_a_command_whose_producer_failed_has_no_result_and_resume_gives_the_whole(project: Project) -> None:
    made = run(
        project,
        """
        stages:
          make:
            command: 'seq 3 | diel stream put s; [ -e OK ]; seq 4 6 | diel stream put s'
            outputs: {s: {stream: true}}
          use:
            command: 'diel stream get s > got; echo "{\\"n\\": $(wc -l < got)}" > "$DIEL_RESULT"'
            inputs: {s: make.s}
            outputs: {n: {value: int}}
          ignore:
            command: 'n=$(diel stream get s | wc -l) || true; echo "{\\"n\\": $n}" > "$DIEL_RESULT"'
            inputs: {s: make.s}
            outputs: {n: {value: int}}
          after: {module: "ends:after", params: {n: "${{ use.n }}"}}
        """,
        code=1,
    )
    for name in ("use", "ignore"):
        assert made.counts(name) == {"failed": 1}
        assert made.failure(name)["class"] == "upstream"
        assert "make/0 failed: exit code 1" in made.failure(name)["message"]
    assert made.counts("after") == {"skipped": 1}
    said = project.diel("status")
    assert "complete" not in said
    assert "stream make.s: 3 items, broken: make/0 failed" in said
    assert (streams(project)["make.s"]["closed"], bool(streams(project)["make.s"]["broken"])) == (False, True)
    assert "stream make.s: 6 items, complete" in heal(project)
    assert [made.value(name, "n") for name in ("use", "ignore", "after")] == [6, 6, 6]


def test_one_of_two_producers_fails_and_what_read_both_has_no_result(project: Project) -> None:
    made = run(
        project,
        """
        axes: {seed: {range: 2}}
        stages:
          make: {over: [seed], module: "ends:make", params: {ok: OK}, outputs: {s: {stream: true}}}
          swallow: {module: "ends:swallow", inputs: {s: make.s}}
          relay: {module: "ends:relay", inputs: {s: make.s}, outputs: {s2: {stream: true}}}
          last: {module: "ends:count", inputs: {s: relay.s2}}
          after: {module: "ends:after", params: {n: "${{ swallow.n }}"}}
        """,
        code=1,
    )
    assert made.counts("make") == {"done": 1, "failed": 1}
    for name in ("swallow", "relay", "last"):
        assert made.counts(name) == {"failed": 1}
        assert made.failure(name)["class"] == "upstream"
    assert "make/1 failed" in (made.root / "told").read_text()
    assert made.counts("after") == {"skipped": 1}
    assert "complete" not in project.diel("status")
    status = heal(project)
    assert "stream make.s: 12 items, complete" in status
    assert "stream relay.s2: 12 items, complete" in status
    assert [made.value(name, "n") for name in ("swallow", "last", "after")] == [12, 12, 12]
