"""Tasks are named by their points wherever people read, and chosen by them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diel.observe.results import RunReader, picked_tasks
from diel.observe.results.rows import TypedText
from tests.cli.call import call
from tests.handmade import Handmade
from tests.searched import loop, search
from tests.throwaway import Project, wait_for

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, str]:
    """A run of which all tasks with one depth failed, and what it said."""
    project = Project(tmp_path_factory.mktemp("swing"), "swing").workflow("""
        axes:
          depth: {values: [1.0, 2.5, 3.0]}
          seed: {range: 4}
          metal: {values: [copper, silver]}
        stages:
          simulate:
            over: [depth, seed]
            outputs: {e: {value: float}, out: out.txt}
            command: |
              echo "depth ${{ depth }} seed ${{ seed }}" | tee out.txt
              echo '{"e": ${{ depth + seed }}}' > "$DIEL_RESULT"
              test ${{ depth }} != 2.5 || { echo "Error: too deep" >&2; exit 3; }
          smelt: {over: [metal], command: "echo ${{ metal }}"}
        """)
    return project, project.diel("run", "swing.yaml", code=1)


@pytest.fixture
def said(ran: tuple[Project, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What the run said; its directory is the current one."""
    monkeypatch.chdir(ran[0].folder)
    return ran[1]


def test_failed_tasks_are_named_by_their_points(said: str, capsys: Capture) -> None:
    assert "simulate/4 (depth=2.5, seed=0)  app: exit code 3" in said
    for words in (
        ["status", "--all"],
        ["explain"],
        ["explain", "simulate/5"],
        ["logs", "simulate/5"],
    ):
        told = call(capsys, *words)
        assert "simulate/5 (depth=2.5, seed=1)" in told.out + told.err, words
    assert "simulate/4 (depth=2.5, seed=0)" in call(capsys, "report").out, "the first of those alike"


def test_programs_get_the_point_beside_the_task(said: str, capsys: Capture) -> None:
    first = json.loads(call(capsys, "status", "--json").out)["failures"][0]
    assert (first["task"], first["point"]) == ("simulate/4", {"depth": 2.5, "seed": 0})


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (["logs", "simulate", "depth=2.50", "seed=1"], "depth 2.5 seed 1\n"),
        (["logs", "simulate", "depth=2.5,", "seed=1"], "depth 2.5 seed 1\n"),  # as it was shown
        (["logs", "last", "simulate", "depth=2.5,seed=1", "--stdout"], "depth 2.5 seed 1\n"),
        (["logs", "swing-1", "simulate/9"], "depth 3.0 seed 1\n"),
        (["logs", "smelt", "metal=silver"], "silver\n"),
    ],
)
def test_a_task_is_chosen_by_its_point(said: str, capsys: Capture, words: list[str], out: str) -> None:
    assert call(capsys, *words).out == out


def test_every_command_takes_points(said: str, capsys: Capture) -> None:
    assert call(capsys, "explain", "simulate", "depth=2.5", "seed=1").out.startswith(
        "swing-1 simulate/5 (depth"
    )
    rows = call(capsys, "results", "simulate.e", "seed=3", "--csv").out.splitlines()
    assert rows == ["depth,seed,simulate.e", "1.0,3,4.0", "3.0,3,6.0"]
    assert call(capsys, "results", "simulate/8", "--csv").out.count("\n") == 2
    folder = call(capsys, "path", "simulate", "depth=3", "seed=0").out
    assert folder == f"{Path.cwd()}/runs/swing-1/tasks/simulate/8\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["logs", "simulate", "depth=2.5"], "4 tasks match 'simulate depth=2.5'; add seed=…"),
        (["path", "simulate", "seed=0"], "simulate/4 (depth=2.5, seed=0)"),
        (["explain", "simulate", "depth=2.4", "seed=0"], "has depth=2.4; the nearest: depth=1.0, depth=2.5"),
        (["logs", "simulate", "seed=9"], "no task of 'simulate' has seed=9; the nearest: seed=2, seed=3"),
        (["logs", "smelt", "metal=coper"], "the nearest: metal=copper"),
        (["results", "simulate.e", "dept=1"], "no axis parameter 'dept'; did you mean 'depth'?"),
        (["logs", "depth=2.5"], "comes after a stage: STAGE depth=2.5"),
        (["logs", "simulat", "depth=2.5"], "did you mean 'simulate'?"),
        (["path", "simulate/12"], "'simulate' has 12 tasks, simulate/0 to simulate/11"),
    ],
)
def test_what_chooses_no_task_or_several_is_told(
    said: str, capsys: Capture, words: list[str], why: str
) -> None:
    told = call(capsys, *words)
    assert (told.code, told.out) == (2, "")
    assert why in told.err


def test_tasks_are_cancelled_by_their_points(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("""
        axes: {depth: {values: [1.0, 2.5]}, seed: {range: 3}}
        stages:
          wait:
            over: [depth, seed]
            command: "touch '${{ run.dir }}'/begun; test ${{ depth }} = 1.0 || sleep 600"
        """)
    process = project.start("run", "flow.yaml")
    wait_for((tmp_path / "runs/flow-1/begun").exists)
    wait_for(lambda: "running: wait/3 (depth=2.5, seed=0)" in project.diel("status", "wait"))
    assert "    wait/3 (depth=2.5, seed=0) for " in project.diel("explain")
    assert project.diel("cancel", "wait", "depth=2.5") == "wait depth=2.5: 3 of 3 tasks cancelled\n"
    assert "3 tasks done, 3 cancelled" in project.end(process, 3)


def test_points_are_found_among_a_million(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Handmade(
        tmp_path,
        """
        axes: {x: {linspace: [0, 1, 1000001]}, y: {range: 1000000}, z: {logspace: [-3, 3, 7]}}
        stages: {a: {over: [x, y, z], command: x}}
        """,
    )
    read = RunReader(run.paths)
    looked = []
    monkeypatch.setattr(RunReader, "point", lambda *_: looked.append(1))
    (index,) = picked_tasks(read, "a", range(10**13 * 7), {"x": TypedText("0.333333"), "y": 77, "z": 0.001})
    assert (index, looked) == ((333333 * 10**6 + 77) * 7, [])


def test_derived_points_trials_and_rounds_choose_too(tmp_path: Path) -> None:
    found = RunReader(search(tmp_path / "s").paths)
    assert picked_tasks(found, "f", range(5), {"trial": TypedText("best")}) == [1]
    assert picked_tasks(found, "f", range(5), {"hp.x": TypedText("0.5")}) == [1]
    looped = RunReader(loop(tmp_path / "l", over=True).paths)
    assert picked_tasks(looped, "check", range(3), {"round": TypedText("2")}) == [2]


@pytest.mark.parametrize(
    ("typed", "index"),
    [
        ("a b", 0),
        ("", 1),
        ("007", 2),
        ("x=y", 3),
        ("true", 4),
        ("null", 5),
        ("[1,2]", 6),
        ('{"k": 1}', 7),
        ("7", 8),
    ],
)
def test_texts_lists_and_words_of_yaml_choose_too(tmp_path: Path, typed: str, index: int) -> None:
    values = '["a b", "", "007", "x=y", true, null, [1, 2], {k: 1}, 7]'
    run = Handmade(tmp_path, f"axes: {{n: {{values: {values}}}}}\nstages: {{a: {{over: [n], command: x}}}}")
    assert picked_tasks(RunReader(run.paths), "a", range(9), {"n": TypedText(typed)}) == [index]


@pytest.mark.parametrize(
    ("values", "chosen"),
    [
        ("[[1, 2], [1.0, 2], [3, 4.0]]", {"[1,2]": [0], "[1.0, 2]": [1], "[1.0,2]": [1], "[3, 4]": [2]}),
        ('["1.0", "2", "a"]', {"1": [0], "1.0": [0], "2.0": [1]}),
        ('["007", "1.10", "3.0", "3.00", a]', {"7": [], "1.1": [], "3": [], "3.0": [2]}),
    ],
)
def test_a_point_is_the_one_as_typed_and_else_the_only_equal_one(
    tmp_path: Path, values: str, chosen: dict[str, list[int]]
) -> None:
    run = Handmade(tmp_path, f"axes: {{n: {{values: {values}}}}}\nstages: {{a: {{over: [n], command: x}}}}")
    read = RunReader(run.paths)
    assert {typed: picked_tasks(read, "a", range(5), {"n": TypedText(typed)}) for typed in chosen} == chosen


def test_what_was_typed_may_be_rounded(tmp_path: Path) -> None:
    axes = "axes: {x: {linspace: [0, 1, 4]}, y: {values: [0.3333, 0.33334, 1]}}"
    run = Handmade(tmp_path, f"{axes}\nstages: {{a: {{over: [x, y], command: x}}}}")
    chosen = [
        {at: picked_tasks(RunReader(run.paths), "a", range(12), {name: TypedText(at)})}
        for name, at in (
            ("x", "0.333"),
            ("x", "0.33"),
            ("y", "0.333"),
            ("y", "0.3333"),
            ("y", "1.0"),
            ("x", "1"),
        )
    ]
    assert chosen == [
        {"0.333": [3, 4, 5]},
        {"0.33": []},  # two digits are no rounding
        {"0.333": [0, 1, 3, 4, 6, 7, 9, 10]},
        {"0.3333": [0, 3, 6, 9]},
        {"1.0": [2, 5, 8, 11]},
        {"1": [9, 10, 11]},
    ]


def test_failures_beyond_those_that_are_kept_prove_nothing(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Handmade(
        tmp_path, "axes: {x: {range: 4}, y: {range: 600}}\nstages: {a: {over: [x, y], command: x}}"
    ).stage("a", 2400)
    for index in range(1200):
        run.write("failed", stage="a", tasks=[[index, index]], message="exit code 3", **{"class": "app"})
    run.end("failed")
    for words in (["status"], ["status", "a"]):
        said = call(capsys, *words).out
        assert "a: all 600 with x=0; all 600 with x=1 failed" in said
        assert "such tasks" not in said


def test_failures_that_share_a_value_are_told_together(said: str, capsys: Capture) -> None:
    assert "simulate: all 4 with depth=2.5 failed" in said
    assert "and 3 more like it: simulate/5-7; all 4 with depth=2.5" in call(capsys, "status").out
    assert "all 4 with depth=2.5" in call(capsys, "status", "simulate").out
    assert "    all 4 with depth=2.5\n" in call(capsys, "explain").out
    assert call(capsys, "status", "--all").out.count("Error: too deep") == 4


MAKER = """
def points(key: str) -> dict:
    return {"points": [{key: 1.0}, {key: 1.0}]}

def one() -> dict:
    return {"v": 1}

def use(v: int = 0) -> dict:
    return {"n": v}
"""


@pytest.mark.parametrize(
    ("key", "reader", "message"),
    [
        ("hp", "over: [d]", "column 'hp' has its own meaning in expressions"),
        ("s", "over: [d]", "axis 'd' gives a parameter 's', and 's' is a stage"),
        ("w", "over: [w, d]", "axes 'w' and 'd' both give the parameter 'w'"),
        (
            "k",
            "inputs: {v: {from: t.v, at: {d: {k: 1}}}}",
            "`at` picks 2 points of axis 'd' of 't': {'k': 1}",
        ),
        (
            "k",
            "inputs: {v: {from: t.v, at: {d: {k: 2}}}}",
            "`at` picks no point of axis 'd' of 't': {'k': 2}",
        ),
    ],
)
def test_names_and_picks_that_only_the_run_shows_fail_it_in_words(
    tmp_path: Path, key: str, reader: str, message: str
) -> None:
    project = Project(tmp_path).module("m", MAKER)
    project.workflow(f"""
        axes: {{d: {{from: make.points}}, w: {{range: 1}}}}
        stages:
          make: {{module: "m:points", params: {{key: {key}}}}}
          t: {{module: "m:one", over: [d]}}
          s: {{module: "m:use", {reader}}}
        """)
    assert message in project.diel("run", "flow.yaml", code=1)


def test_a_shape_that_an_input_expects_is_held_against_its_file(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    made = "import numpy\n\ndef a(n: int, m: int) -> dict:\n    return {'x': numpy.zeros((n, m))}\n"
    project = Project(tmp_path).module(
        "arrays", f"{made}\n\ndef use(x, y=None) -> dict:\n    return {{'n': 1}}\n"
    )
    project.workflow("""
        stages:
          a: {module: "arrays:a", params: {n: 4, m: 3}, outputs: {x: {shape: ["*", "*"]}}}
          b: {module: "arrays:a", params: {n: 5, m: 3}, outputs: {x: {shape: [k, "*"]}}}
          good: {module: "arrays:use", inputs: {x: {from: a.x, shape: [n, 3]}}}
          bad: {module: "arrays:use", inputs: {x: {from: a.x, shape: [n, 2]}}}
          both: {module: "arrays:use", inputs: {x: {from: a.x, shape: [n, 3]}, y: {from: b.x, shape: [n, "*"]}}}
        """)
    run = project.run(code=1)
    assert run.counts("good")["done"] == 1
    assert "has shape [4, 3]; expected [n, 2]" in run.failure("bad")["message"]
    assert "shape [5, 3], so n is 5; it is 4 of 'x'" in run.failure("both")["message"]


def test_tasks_at_equal_points_are_told_apart_by_number(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("""
        axes: {c: {values: [1, 1]}}
        stages: {a: {over: [c], command: "echo ${{ c }}"}}
        """)
    project.diel("run", "flow.yaml")
    assert "2 tasks match 'a c=1'; write one by its number\n" in project.diel("logs", "a", "c=1", code=2)
    project.workflow("""
        axes: {c: {from: mk.rows, columns: [p, q]}}
        stages:
          mk: {command: 'echo "{\\"rows\\": [{\\"p\\": 1, \\"q\\": 2}, {\\"p\\": 1, \\"q\\": 2}]}" > $DIEL_RESULT'}
          a: {over: [c], command: "echo ${{ p }}"}
        """)
    project.diel("run", "flow.yaml")
    assert "2 tasks match 'a p=1'; write one by its number\n" in project.diel("logs", "a", "p=1", code=2)
    project.workflow("""
        axes: {c: {values: [1, 1]}}
        stages: {a: {over: [c], command: "echo ${{ c }}"}}
        """)
    project.diel("run", "flow.yaml")
    assert "1" in project.diel("logs", "a/1")
