"""What tasks ask for by expressions, as a user sees it: checked before the run, honoured in it, told after it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.throwaway import Project, Run

ASKED = """
    hyperparameters: {each: {type: int, default: 100}}
    axes:
      n: {values: [1, 2]}
      made: {from: make.counts}
    stages:
      make:
        command: |
          head -c 3000000 /dev/zero > mesh.bin
          echo '{"counts": [1, 9, 2]}' > $DIEL_RESULT
        outputs: {mesh: mesh.bin, counts: {value: list}}
      known:
        over: [n]
        command: 'echo "{\\"threads\\": $OMP_NUM_THREADS}" > $DIEL_RESULT'
        outputs: {threads: {value: int}}
        resources: {cores_per_rank: "${{ n }}", memory: "${{ hp.each }}MiB"}
      ranks:
        over: [n]
        command: [sh, -c, "echo $DIEL_RANK >> ../ranks-of-$N"]
        env: {N: "${{ n }}"}
        resources: {ranks: "${{ n }}"}
      later:
        over: [made]
        command: ["true"]
        resources: {cores_per_rank: "${{ made }}"}
      sized:
        command: "test $DIEL_ATTEMPT = 3"
        inputs: {mesh: make.mesh}
        resources: {memory: "${{ size(inputs.mesh) * 20 * task.attempt }}"}
        retries: {limit: "${{ ceil(size(inputs.mesh) / 1MB) }}", backoff: "${{ 0s }}"}
      slow:
        over: [n]
        command: "sleep 20"
        timeout: "${{ 100ms * n }}"
      grown:
        command: "kill -9 $$"
        resources: {memory: "${{ 64MiB * task.attempt }}"}
        on: {node: {retries: 2, backoff: 0s, memory: x3}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    project = Project(tmp_path_factory.mktemp("asked")).workflow(ASKED).machine("two", 2)
    return project.run("--site", "two", code=1)


def asked(run: Run, stage: str) -> dict[int, list[dict[str, object]]]:
    """What each task of a stage asked for, attempt by attempt."""
    found: dict[int, list[dict[str, object]]] = {}
    for record in run.records("queued", stage):
        for index in record["tasks"]:
            found.setdefault(index, []).append(record["asked"])
    return found


def test_each_task_gets_what_its_point_asks_for(run: Run) -> None:
    assert run.values("known", "threads") == [1, 2]
    memory = 100 * 2**20
    assert asked(run, "known") == {
        0: [{"cores_per_rank": 1, "memory": memory}],
        1: [{"cores_per_rank": 2, "memory": memory}],
    }


def test_explain_counts_the_cores_that_a_point_asked_for(run: Run) -> None:
    said = Project(run.root.parents[1], "flow").diel("explain", run.id, "known/1")
    assert re.search(r"used \S+ of 2 cores", said)


def test_as_many_ranks_run_as_the_point_says(run: Run) -> None:
    lines = {n: (run.root / f"tasks/ranks/ranks-of-{n}").read_text().splitlines() for n in (1, 2)}
    assert {n: len(ranks) for n, ranks in lines.items()} == {1: 1, 2: 2}


def test_a_point_known_later_fails_alone_with_the_place_of_its_expression(run: Run) -> None:
    assert run.counts("later") == {"done": 2, "failed": 1}
    failure = run.failure("later", 1)
    assert failure["class"] == "launch"
    expected = r"flow.yaml:27:33: with made=9: asks for 9 cores a node, and pool 'local' has 2; .*"
    assert re.fullmatch(expected, failure["message"])
    assert not [record for record in run.records("start", "later") if record["index"] == 1]


def test_memory_grows_with_the_attempt_and_the_size_of_an_input(run: Run) -> None:
    assert [each["memory"] for each in asked(run, "sized")[0]] == [60_000_000, 120_000_000, 180_000_000]
    assert asked(run, "sized")[0][0]["limit"] == 3
    assert run.counts("sized") == {"done": 1}


def test_a_timeout_is_the_task_s_own(run: Run) -> None:
    messages = sorted(failed["message"] for failed in run.records("failed", "slow"))
    assert messages == ["ran longer than its timeout of 0.1 s", "ran longer than its timeout of 0.2 s"]


def test_a_factor_raises_what_an_expression_gives_and_never_lowers_it(run: Run) -> None:
    records = run.records("queued", "grown")
    given = [(record.get("resources") or record["asked"])["memory"] for record in records]
    assert given == [64 * 2**20, 192 * 2**20, 576 * 2**20]


def test_a_run_that_goes_on_asks_for_the_same(run: Run) -> None:
    project = Project(run.root.parents[1], "flow")
    before = len(run.records("queued", "slow"))
    project.diel("resume", run.id, code=1)
    after = run.records("queued", "slow")[before:]
    assert [record["asked"] for record in after] == [{"timeout": 0.1}, {"timeout": 0.2}]
    assert run.failure("later", 1)["class"] == "launch"


def test_resources_are_no_part_of_the_key(tmp_path: Path) -> None:
    text = (
        'axes: {n: {values: [1, 2]}}\nstages: {s: {over: [n], command: [echo, "${{ n }}"], resources: R}}\n'
    )
    project = Project(tmp_path).machine("two", 2)
    project.workflow(text.replace("R", '{memory: "${{ 1GiB * n }}"}')).run("--site", "two")
    second = project.workflow(text.replace("R", '{cores_per_rank: "${{ n }}"}')).run("--site", "two")
    assert second.counts("s") == {"cached": 2}


HOSTILE = """
    hyperparameters: {x: {type: float, low: 0, high: 1}}
    axes:
      later: {from: make.list}
      trial: {search: {sampler: random, trials: 1, minimize: tried.y, parameters: [x], core_hours: 10}}
    stages:
      make:
        command: |
          mkdir -p d/e; printf 12345 > d/a; printf 123 > d/e/b; ln -s a d/link; : > empty
          echo '{"list": [0, -1, 2.5, "text", null, true, [1], 1e300, 1], "null": null}' > $DIEL_RESULT
        outputs: {d: d, files: {glob: "d/**"}, empty: empty, list: {value: list}}
      sized:
        command: ["true"]
        inputs: {d: make.d, files: make.files}
        resources: {memory: "${{ 1KiB * size(inputs.d) / 1B + 1MiB * size(inputs.files) / 1B }}"}
      empty: {command: ["true"], inputs: {f: make.empty}, timeout: "${{ 1s * (1MB / size(inputs.f)) }}"}
      missing: {command: ["true"], after: [make], resources: {memory: "${{ 1GiB * make.none }}"}}
      cores: {over: [later], command: ["true"], resources: {cores_per_rank: "${{ later }}"}}
      memory: {over: [later], command: ["true"], resources: {memory: "${{ 1GiB * 1e8 * later }}"}}
      timeout: {over: [later], command: ["true"], timeout: "${{ 1s * later }}"}
      retries: {over: [later], command: ["true"], retries: "${{ later }}"}
      environment: {over: [later], command: ["true"], environment: "${{ later }}"}
      tried:
        over: [trial]
        command: "test $DIEL_ATTEMPT = 2 && echo '{\\"y\\": ${{ hp.x }}}' > $DIEL_RESULT"
        outputs: {y: {value: float}}
        resources: {cores_per_rank: "${{ 1 if task.attempt < 3 else 4000 }}"}
        retries: {limit: 1, backoff: 0s}
"""


def test_whatever_a_run_shows_only_its_own_task_fails_with_words(tmp_path: Path) -> None:
    run = Project(tmp_path).workflow(HOSTILE).machine("two", 2).run("--site", "two", code=1)
    good = {
        s: n.get("done", 0)
        for s in ("sized", "cores", "timeout", "retries", "tried")
        for n in (run.counts(s),)
    }
    assert good == {"sized": 1, "cores": 2, "timeout": 2, "retries": 3, "tried": 1}
    assert asked(run, "sized")[0] == [{"memory": 13 * 2**10 + 13 * 2**20}]
    told = {(r["stage"], r["tasks"][0][0]): r["message"].partition(": ")[2] for r in run.records("failed")}
    assert "division by zero" in told["empty", 0]
    assert "made no 'none'" in told["missing", 0]
    assert told["environment", 0] == "with later=0: expected the name of an environment, found 0"
    assert "with later=-1: expected at least 1, found -1" in told["cores", 1]
    assert "found 2.5; round it" in told["cores", 2]
    assert "found 'text'" in told["retries", 3]
    assert "with later=1e+300: the size or duration is inf" in told["memory", 7]
