"""A stream whose producer fails is broken, not ended: what read it has no result, until it is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.throwaway import Project, Run, wait_for

MODULES = """
    import os
    from pathlib import Path
    from diel.base.errors import StreamBroken

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
    return Project(tmp_path).module("ends", MODULES).machine("wide", 4)


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
    assert "make/1 (seed=1) failed" in (made.root / "told").read_text()
    assert made.counts("after") == {"skipped": 1}
    assert "complete" not in project.diel("status")
    status = heal(project)
    assert "stream make.s: 12 items, complete" in status
    assert "stream relay.s2: 12 items, complete" in status
    assert [made.value(name, "n") for name in ("swallow", "last", "after")] == [12, 12, 12]


MORE = """
    import time
    from pathlib import Path

    @diel.module(kind="simulation")
    def less(context: diel.Context) -> dict:
        for number in range(5 if context.attempt == 1 else 2):
            context.stream("s").put(number)
        assert context.attempt > 1
        return {}

    @diel.module(kind="simulation")
    def late(context: diel.Context, ok: str) -> dict:
        for number in range(6):
            if number == 3 and not Path(ok).exists():
                while not any(b'"done","stage":"take"' in path.read_bytes() for path in journal(context)):
                    time.sleep(0.02)
                raise ValueError("it fails once its reader has a result")
            context.stream("s").put(number)
        return {}

    def journal(context):
        return (context.run_dir / "journal").glob("worker*")

    @diel.module(kind="analysis")
    def take(context: diel.Context) -> dict:
        return {"got": [context.stream("s").get() for _ in range(3)]}
"""


def test_what_is_whole_is_told_by_the_broker_and_not_by_exit_codes(project: Project) -> None:
    """Five gangs in a run: killed ends and producers, an attempt that puts less, an early end, tolerated losses."""
    project.module("more", MORE)
    made = run(
        project,
        """
        axes: {seed: {range: 3}}
        stages:
          put:
            command: |
              diel stream put s -- sh -c 'seq 3; [ "$DIEL_ATTEMPT" = 2 ] || kill -9 $PPID; seq 4 6' || true
            outputs: {s: {stream: true}}
          get:
            command: |
              [ "$DIEL_ATTEMPT" = 2 ] || diel stream get s -- sh -c 'read x; kill -9 $PPID' || true
              [ "$DIEL_ATTEMPT" = 1 ] || diel stream get s -- sh -c 'cat > got'
              touch got
            inputs: {s: put.s}
            outputs: {got: got}
          shot:
            command: |
              diel stream put s -- seq 3
              [ "$DIEL_ATTEMPT" = 2 ] || kill -9 $$
              diel stream put s -- seq 4 6
            outputs: {s: {stream: true}}
          of_shot: {module: "ends:count", inputs: {s: shot.s}}
          less: {module: "more:less", retries: 1, outputs: {s: {stream: true}}}
          of_less: {module: "ends:count", inputs: {s: less.s}}
          late: {module: "more:late", params: {ok: OK}, outputs: {s: {stream: true}}}
          take: {module: "more:take", inputs: {s: late.s}}
          make: {over: [seed], module: "ends:make", params: {ok: OK}, outputs: {s: {stream: true}}}
          most: {module: "ends:count", inputs: {s: {from: make.s, min_success: 0.6}}}
          all: {module: "ends:count", inputs: {s: make.s}}
        """,
        code=1,
    )
    for name, message in (
        ("put", "who put into put.s for put/0 was killed"),
        ("get", "who read put.s for get/0 was killed"),
    ):
        assert made.attempts(name) == [1, 2]
        (failed,) = made.records("fail", name)
        assert failed["class"] == "node"
        assert message in failed["message"]
    assert made.artifact("get", "got").read_text().split() == list("123456")
    assert (
        "less/0 put 2 items into less.s, and an attempt before it had put 5"
        in made.failure("less")["message"]
    )
    assert made.failure("of_less")["class"] == "upstream"
    assert made.value("of_shot", "n") == 6
    assert made.value("take", "got") == [0, 1, 2]
    assert made.value("most", "n") == 15
    assert made.failure("all")["class"] == "upstream"
    (project.folder / "ok").touch()
    project.diel("resume", "--quiet", code=None)
    assert made.value("take", "got") == [0, 1, 2]
    assert (made.value("most", "n"), made.value("all", "n")) == (15, 18)


def test_a_reader_whose_result_is_lost_reads_all_again(project: Project) -> None:
    made = run(
        project,
        """
        stages:
          make: {command: 'diel stream put s -- seq 6', outputs: {s: {stream: true}}}
          use: {command: 'diel stream get s > got', inputs: {s: make.s}, outputs: {got: got}}
          after: {command: '[ -e OK ]; wc -l < "${{ use.got }}" > n', outputs: {n: n}}
        """,
        code=1,
    )
    made.artifact("use", "got").unlink()
    heal(project)
    assert made.artifact("after", "n").read_text().split() == ["6"]


def test_a_cancelled_producer_cancels_what_reads_it(project: Project) -> None:
    process = project.workflow(
        """
        stages:
          make: {command: 'diel stream put s -- seq 3; touch there; sleep 60', outputs: {s: {stream: true}}}
          use: {command: 'diel stream get s | wc -l > n', inputs: {s: make.s}, outputs: {n: n}}
          after: {command: 'cat "${{ use.n }}"'}
        """
    ).start("run", "--quiet", "--site", "wide", "flow.yaml")
    wait_for(lambda: list((project.folder / "runs").glob("flow-*/tasks/make/0/there")))
    project.diel("cancel", "last", "make")
    project.end(process, code=3)
    made = project.newest()
    assert [made.counts(name) for name in ("make", "use", "after")] == [
        {"cancelled": 1},
        {"cancelled": 1},
        {"skipped": 1},
    ]
    assert "stream make.s: 3 items, broken: make/0 was cancelled" in project.diel("status")
