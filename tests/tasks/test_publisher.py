"""What tasks publish becomes the project's: once, where it fits, and of a loop the last round's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from diel.base.paths import registry_dir
from diel.store.registry import Change, read_changes
from diel.tasks.results import MissingInput
from tests.controller.bench import Bench

TUNED = """
hyperparameters: {rate: {type: float, default: 0.001, high: 0.1}}
stages:
  tune: {command: [tune], outputs: {found: {value: float}}, publishes: {rate: found}}
  train: {after: [tune], command: [train, "${{ hp.rate }}"]}
"""


def changes(bench: Bench) -> list[Change]:
    return read_changes(bench.paths.root.parent)[0]


def troubles(bench: Bench) -> list[str]:
    lines = map(json.loads, bench.paths.controller_segment(1).read_text().splitlines())
    return [line["message"] for line in lines if line["event"] == "trouble"]


def test_a_committed_value_is_the_projects_and_its_readers(tmp_path: Path) -> None:
    bench = Bench(tmp_path, TUNED)
    bench.done("tune", found=0.02)
    (change,) = changes(bench)
    assert (change.origin, change.values) == ("publication", {"rate": 0.02})
    assert (change.run, change.stage, change.task) == (bench.paths.run_id, "tune", 0)
    assert bench.resolve("train").command == ("train", "0.02")


def test_a_bad_value_fails_its_readers_with_its_bounds_and_stays_out_of_the_project(tmp_path: Path) -> None:
    bench = Bench(tmp_path, TUNED)
    bench.done("tune", found=0.2)
    told = "hp.rate, as tune/0 has published it: expected at most 0.1 (`high`), found 0.2"
    with pytest.raises(MissingInput) as found:
        bench.resolve("train")
    assert str(found.value) == told
    assert (changes(bench), troubles(bench)) == ([], [told])


def test_what_was_not_made_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path, TUNED)
    bench.done("tune", other=1)
    assert (changes(bench), troubles(bench)) == ([], ["tune/0 made no 'found' to publish"])


@pytest.mark.parametrize("in_between", [True, False])
def test_what_was_committed_when_the_controller_died_is_published_once_by_the_next(
    tmp_path: Path, *, in_between: bool
) -> None:
    bench = Bench(tmp_path, TUNED)
    bench.done("tune", found=0.02)
    if in_between:
        shutil.rmtree(registry_dir(bench.paths.root.parent))
    bench.resumed()
    assert [change.values for change in changes(bench)] == [{"rate": 0.02}]


def test_of_the_rounds_of_a_loop_the_last_one_counts(tmp_path: Path) -> None:
    text = """
    hyperparameters: {rate: {type: float, default: 0.5}}
    axes: {round: {loop: {max: 3}}}
    stages:
      tune: {over: [round], command: [tune], outputs: {rate: {value: float}}, publishes: {rate: rate}}
      train: {over: [round], after: [tune], command: [train, "${{ hp.rate }}"]}
    """
    bench = Bench(tmp_path, text)
    for index in range(3):
        bench.done("tune", index, rate=1 / (index + 1))
    assert changes(bench)[-1].values == {"rate": 1 / 3}
    assert [bench.resolve("train", index).command for index in range(2)] == [
        ("train", "1.0"),
        ("train", "0.5"),
    ]


def test_values_of_a_sweep_are_nobodys_but_their_readers(tmp_path: Path) -> None:
    text = """
    hyperparameters: {rate: {type: float, default: 0.5}}
    axes: {a: {range: 2}}
    stages:
      tune: {over: [a], command: [tune], outputs: {rate: {value: float}}, publishes: {rate: rate}}
      use: {over: [a], after: [tune], command: [use, "${{ hp.rate }}"]}
    """
    bench = Bench(tmp_path, text)
    for index in range(2):
        bench.done("tune", index, rate=index / 4)
    assert changes(bench) == []
    assert [bench.resolve("use", index).command for index in range(2)] == [("use", "0.0"), ("use", "0.25")]
