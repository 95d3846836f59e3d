"""How a task is made from its point and its inputs, and what its cache key covers."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.errors import ModuleError
from diel.store.artifacts import Artifact
from diel.tasks.recipe import copies, keyed
from diel.tasks.results import MissingInput
from diel.worker.staging.item import AT_NODE, Shard
from diel.workflow.expressions import ExpressionError
from tests.controller.bench import Bench

MODULES = """
import diel


@diel.module(kind="simulation")
def melt(t: float, steps: int = 1) -> dict:
    return {"e": t}


@diel.module(kind="analysis")
def free(**anything: object) -> dict:
    return {}
"""


@pytest.fixture
def folder(workspace: Path) -> Path:
    (workspace / "modules").mkdir()
    (workspace / "modules" / "m.py").write_text(MODULES)
    return workspace


# --- parameters and inputs ----------------------------------------------------------------------


def test_a_module_gets_its_params_and_of_its_point_what_it_takes(folder: Path) -> None:
    text = """
    axes: {t: {values: [1.5, 2.5]}, seed: {range: 2}, steps: {values: [7]}}
    stages:
      s: {module: m:melt, over: [t, seed, steps], params: {steps: "${{ seed + 10 }}"}}
      all: {module: m:free, over: [t, seed], params: {x: {deep: ["${{ t }}", 'at ${{ t }}']}}}
    """
    bench = Bench(folder, text)
    assert [bench.resolve("s", index).params for index in range(4)] == [
        {"t": 1.5, "steps": 10},
        {"t": 1.5, "steps": 11},
        {"t": 2.5, "steps": 10},
        {"t": 2.5, "steps": 11},
    ]
    assert bench.resolve("all", 3).params == {"t": 2.5, "seed": 1, "x": {"deep": [2.5, "at 2.5"]}}
    assert bench.resolve("s").command is None


EDGES = """
hyperparameters: {rate: {type: float, default: 0.5}}
axes: {a: {values: [10, 20]}, b: {range: 3}}
stages:
  up: {command: 'run > $DIEL_RESULT', over: [a, b]}
  match: {module: m:free, over: [a, b], inputs: {x: up.x}}
  gather: {module: m:free, over: [a], inputs: {x: up.x, y: {from: up.x, at: {b: 1}}}}
  all: {module: m:free, inputs: {x: up.x, first: {from: up.x, at: {a: 20}}, rate: hp.rate}}
  text: {command: [echo, "${{ up.x }}", "${{ up.a }}"], over: [b]}
"""


@pytest.fixture
def edges(folder: Path) -> Bench:
    bench = Bench(folder, EDGES)
    for index in range(6):
        bench.done("up", index, x=index)
    return bench


def test_inputs_are_matched_gathered_and_picked(edges: Bench) -> None:
    assert [edges.resolve("match", index).inputs for index in range(6)] == [{"x": n} for n in range(6)]
    assert [edges.resolve("gather", index).inputs for index in (0, 1, 0)] == [
        {"x": [0, 1, 2], "y": 1},
        {"x": [3, 4, 5], "y": 4},
        {"x": [0, 1, 2], "y": 1},
    ]


def test_two_inputs_from_one_output_are_read_each_by_its_own_rule(edges: Bench) -> None:
    expected = {"x": [0, 1, 2, 3, 4, 5], "first": [3, 4, 5], "rate": 0.5}
    assert edges.resolve("all").inputs == expected
    assert edges.resolve("all").inputs == expected


def test_an_expression_follows_the_same_rules_and_reads_parameters_of_the_upstream_too(edges: Bench) -> None:
    """A gathered list becomes several words."""
    assert edges.resolve("text", 1).command == ("echo", "1", "4", "10", "20")


def test_tasks_that_failed_are_left_out_of_a_gather_that_allows_it(folder: Path) -> None:
    text = """
    axes: {a: {range: 3}}
    stages:
      up: {command: 'run > $DIEL_RESULT', over: [a]}
      down: {module: m:free, inputs: {x: {from: up.x, min_success: 0.5}}}
    """
    bench = Bench(folder, text)
    bench.done("up", 0, x="first")
    bench.fail("up", 1)
    bench.done("up", 2, x="last")
    assert bench.resolve("down").inputs == {"x": ["first", "last"]}


def test_an_output_that_a_task_did_not_make_is_told_with_those_that_it_made(edges: Bench) -> None:
    bench = edges
    bench.done("up", 0, energy=1, time=2)
    with pytest.raises(MissingInput, match=r"up/0 \(a=10, b=0\) made no 'x'; it made: energy, time"):
        bench.resolve("match", 0)


def test_an_expression_that_fails_for_a_value_is_told_when_the_value_is_known(folder: Path) -> None:
    text = "axes: {n: {values: [0, 2]}}\nstages: {s: {command: [echo, '${{ 1 / n }}'], over: [n]}}\n"
    bench = Bench(folder, text)
    with pytest.raises(ExpressionError):
        bench.resolve("s", 0)
    assert bench.resolve("s", 1).command == ("echo", "0.5")


def test_a_condition_is_asked_for_each_task(folder: Path) -> None:
    text = """
    axes: {n: {range: 4}}
    stages:
      some: {command: [echo], over: [n], when: n % 2 == 1}
      none: {command: [echo], when: false}
      all: {command: [echo]}
    """
    recipes = Bench(folder, text).stages.recipes
    assert [recipes["some"].is_wanted(index) for index in range(4)] == [False, True, False, True]
    assert (recipes["none"].is_wanted(0), recipes["all"].is_wanted(0)) == (False, True)


def test_values_reach_a_shell_quoted_and_a_list_as_they_are(folder: Path) -> None:
    nasty = 'a b\'; rm -rf "$HOME" `x`\n-é'
    text = f"""
    axes: {{v: {{values: [{nasty!r}]}}}}
    stages:
      shell: {{command: 'printf %s ${{{{ v }}}}', over: [v]}}
      words: {{command: [printf, "%s", "${{{{ v }}}}"], over: [v]}}
    """.replace(repr(nasty), '"a b\'; rm -rf \\"$HOME\\" `x`\\n-é"')
    bench = Bench(folder, text)
    assert bench.resolve("words").command == ("printf", "%s", nasty)
    command = bench.resolve("shell").command
    assert command is not None
    assert command[:-1] == ("bash", "-e", "-o", "pipefail", "-c")
    assert command[-1] == "printf %s 'a b'\"'\"'; rm -rf \"$HOME\" `x`\n-é'"


@pytest.mark.parametrize("path", ["../x", "/etc/x", "~/x", "a/../../x", "", ".", "a\0b"])
def test_no_value_leads_an_output_out_of_its_task(folder: Path, path: str) -> None:
    text = """
    stages:
      up: {command: 'run > $DIEL_RESULT'}
      s: {command: [echo], outputs: {o: "${{ up.path }}"}}
    """
    bench = Bench(folder, text)
    bench.done("up", path=path)
    with pytest.raises(ModuleError, match="output 'o'"):
        bench.resolve("s")


def test_artifacts_are_read_as_absolute_paths(folder: Path) -> None:
    text = """
    stages:
      up: {command: [run], outputs: {f: f.csv}}
      s: {command: [cat, "${{ inputs.f }}", "${{ up.f }}"], inputs: {f: up.f}}
    """
    bench = Bench(folder, text)
    bench.done("up", f=Path("tasks/up/0/f.csv"))
    path = str(bench.paths.root / "tasks/up/0/f.csv")
    assert bench.resolve("s").command == ("cat", path, path)
    assert bench.resolve("s").inputs == {"f": path}


# --- cache keys ---------------------------------------------------------------------------------

BASE = """
hyperparameters: {rate: {type: float, default: 0.5}, other: {type: int, default: 1}}
axes: {n: {values: [1, 2, 3]}}
stages:
  s:
    command: [run, "${{ n }}", "${{ hp.rate }}"]
    over: [n]
    params: {p: 1}
    env: {E: "1"}
    files: {f: data.txt}
    outputs: {o: o.csv}
"""


@pytest.fixture
def data(folder: Path) -> Path:
    (folder / "data.txt").write_text("one")
    return folder


def test_tasks_have_keys_of_their_own_and_the_same_in_every_run(data: Path) -> None:
    keys = Bench(data, BASE).keys("s")
    assert len(set(keys)) == 3
    assert Bench(data, BASE).keys("s") == keys


def test_enlarging_or_reordering_an_axis_keeps_the_keys_of_its_points(data: Path) -> None:
    one, two, three = Bench(data, BASE).keys("s")
    larger = Bench(data, BASE.replace("[1, 2, 3]", "[0, 3, 2, 1, 4]")).keys("s")
    assert larger[1:4] == [three, two, one]


CHANGES = {
    "the command": ("[run,", "[run, -v,"),
    "a parameter": ("{p: 1}", "{p: 2}"),
    "a parameter's type": ("{p: 1}", "{p: 1.0}"),
    "the environment": ('{E: "1"}', '{E: "2"}'),
    "an output": ("o.csv", "p.csv"),
    "a hyperparameter that is read": ("default: 0.5", "default: 0.25"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_a_result_changes_the_key(data: Path, change: str) -> None:
    before, after = Bench(data, BASE).keys("s"), Bench(data, BASE.replace(*CHANGES[change])).keys("s")
    assert not set(before) & set(after)


def test_a_file_counts_by_its_content(data: Path) -> None:
    before = Bench(data, BASE).keys("s")
    (data / "data.txt").write_text("two")
    assert not set(Bench(data, BASE).keys("s")) & set(before)
    (data / "data.txt").write_text("one")
    assert Bench(data, BASE).keys("s") == before


NO_CHANGES = {
    "a hyperparameter that is not read": ("default: 1}", "default: 2}"),
    "retries": ("over: [n]", "over: [n]\n    retries: 3"),
    "a condition": ("over: [n]", "over: [n]\n    when: n < 9"),
    "resources": ("over: [n]", "over: [n]\n    resources: {walltime: 1h}"),
    "a description": ("over: [n]", "over: [n]\n    description: new"),
    "another stage": ("stages:", "stages:\n  t: {command: [other]}"),
}


@pytest.mark.parametrize("change", NO_CHANGES)
def test_what_changes_no_result_keeps_the_key(data: Path, change: str) -> None:
    assert Bench(data, BASE.replace(*NO_CHANGES[change])).keys("s") == Bench(data, BASE).keys("s")


def test_a_modules_source_is_part_of_the_key(folder: Path) -> None:
    text = "stages: {s: {module: m:melt, params: {t: 1.0}}}\n"
    before = Bench(folder, text).keys("s")
    (folder / "modules" / "m.py").write_text(MODULES.replace('"e": t', '"e": -t'))
    assert Bench(folder, text).keys("s") != before


def test_an_input_counts_by_its_value_and_a_file_by_its_content_wherever_it_lies(folder: Path) -> None:
    text = """
    stages:
      up: {command: 'run > $DIEL_RESULT', outputs: {f: f.csv}}
      s: {module: m:free, inputs: {f: up.f}, params: {x: "${{ up.x }}"}}
    """

    def key(path: str, x: float) -> str:
        bench = Bench(folder, text)
        bench.done("up", f=Path(path), x=x)
        return bench.resolve("s").key

    first = key("tasks/up/0/digest-1", 1)
    assert key("tasks/up/0.2/digest-1", 1) == first
    assert key("tasks/up/0/digest-2", 1) != first
    assert key("tasks/up/0/digest-1", 2) != first


def test_two_data_sets_of_one_file_are_two_inputs(folder: Path) -> None:
    text = """
    stages:
      up: {command: 'run', outputs: {x: "f.h5:/x", y: "f.h5:/y", whole: f.h5}}
      s: {module: m:free, inputs: {d: up.OUTPUT}}
    """

    def key(output: str) -> str:
        bench = Bench(folder, text.replace("OUTPUT", output))
        file = {"path": "tasks/up/0/f.h5", "size": 1, "digest": "one"}
        made = {"x": {**file, "inside": "/x"}, "y": {**file, "inside": "/y"}, "whole": file}
        record = {"event": "done", "stage": "up", "index": 0, "attempt": 1, "seconds": 0.0, "key": "0" * 32}
        bench.commit("up", 0, {**record, "artifacts": made})
        return bench.resolve("s").key

    assert key("x") == key("x")
    assert len({key("x"), key("y"), key("whole")}) == 3


def test_a_gathered_input_counts_with_all_its_members(folder: Path) -> None:
    def key(*values: int) -> str:
        bench = Bench(folder, EDGES)
        for index, value in enumerate(values):
            bench.done("up", index, x=value)
        return bench.resolve("all").key

    assert key(0, 1, 2, 3, 4, 5) == key(0, 1, 2, 3, 4, 5)
    assert len({key(0, 1, 2, 3, 4, 5), key(0, 1, 2, 3, 4, 6), key(1, 0, 2, 3, 4, 5)}) == 3


def test_the_key_names_its_changed_part(data: Path) -> None:
    before, after = Bench(data, BASE), Bench(data, BASE.replace('{E: "1"}', '{E: "2"}'))
    parts = [bench.stages.recipes["s"].family_parts for bench in (before, after)]
    assert [name for name in parts[0] if parts[0][name] != parts[1][name]] == ["env"]
    (own, _), (other, _) = before.resolve("s", 0).parts, before.resolve("s", 1).parts
    assert own != other


def test_an_input_that_is_a_hyperparameter_has_the_trials_value(folder: Path) -> None:
    text = """
    hyperparameters: {x: {type: float, low: 0, high: 1, default: 0.125}}
    axes:
      trial:
        search: {sampler: random, seed: 1, trials: 2, parallel: 2, minimize: s.loss, parameters: [x]}
    stages:
      s: {command: 'run > $DIEL_RESULT', over: [trial], inputs: {x: hp.x}, params: {y: "${{ hp.x }}"}}
      other: {command: [run], inputs: {x: hp.x}}
    """
    bench = Bench(folder, text)
    tasks = [bench.resolve("s", index) for index in range(2)]
    assert all(task.inputs["x"] == task.params["y"] for task in tasks)
    assert len({task.inputs["x"] for task in tasks} | {0.125}) == 3
    assert bench.resolve("other").inputs["x"] == 0.125


def test_artifacts_that_are_to_be_near_are_replaced_by_what_stands_for_their_copies() -> None:
    one, other = Artifact("/run/a.csv", "1", size=7), Artifact("/run/b.csv", "2")
    inputs = {"near": [one, [one, other]], "far": other, "n": 3}
    found, items = copies(inputs, {"near", "n"})
    assert [(item.source, item.key) for item in items] == [
        ("/run/a.csv", items[0].key),
        ("/run/b.csv", items[1].key),
    ], "each once"
    first, (again, second) = found["near"]
    assert first == again
    assert first.startswith(AT_NODE)
    assert (first.digest, first.bytes) == ("1", 7)
    assert second.endswith("b.csv")
    assert (found["far"], found["n"]) == (other, 3)


FLOW = """
axes: {a: {range: 2}, i: {range: 3}}
stages:
  up: {over: [a], command: [up], outputs: {x: {path: x}}}
  down: {over: [a, i], command: [down, "${{ inputs.x }}"], inputs: {x: {from: up.x, shard: {by: task, seed: 5}}}}
"""


def test_tasks_that_read_the_same_get_each_a_part_of_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FLOW)
    for index in range(2):
        bench.done("up", index, x=tmp_path / f"x{index}")
    parts = []
    for index in (0, 1, 2, 5, 3):
        shards = bench.resolve("down", index).shards
        assert shards is not None
        assert (shards["x"].by, shards["x"].seed, shards["x"].parts) == ("task", 5, 3)
        parts.append(shards["x"].part)
    assert parts == [0, 1, 2, 2, 0]
    assert len(set(bench.keys("down"))) == 6


def test_a_task_that_its_condition_leaves_out_has_no_part(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FLOW.replace("inputs: {x", "when: i != 1 or a == 1, inputs: {x"))
    for index in range(2):
        bench.done("up", index, x=tmp_path / f"x{index}")
    shards = {index: (bench.resolve("down", index).shards or {})["x"] for index in (0, 2, 3, 4, 5)}
    found = {index: (shard.part, shard.parts) for index, shard in shards.items()}
    assert found == {0: (0, 2), 2: (1, 2), 3: (0, 3), 4: (1, 3), 5: (2, 3)}


def test_another_part_or_order_is_another_task() -> None:
    shards = [Shard("task", 1, 0, 2), Shard("task", 1, 1, 2), Shard("task", 2, 0, 2), Shard("rank", 1)]
    texts = [keyed({"x": shard})["shard of x"] for shard in shards]
    assert texts[0] == "task 0 of 2, seed 1"
    assert len(set(texts)) == 4
