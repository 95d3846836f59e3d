"""Searches and loops whose controllers are killed at random moments end as those that were left alone."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SEARCH = """
diel: 1
name: flow
hyperparameters:
  x: {type: float, low: -2, high: 2}
  n: {type: int, low: 1, high: 9}
  way: {type: choice, choices: [up, down]}
axes:
  trial:
    search: {sampler: tpe, trials: TRIALS, seed: 7, startup: 5, minimize: judge.cost, parameters: [x, n, way]}
stages:
  simulate:
    over: [trial]
    command: |
      sleep 0.02
      [ ${{ trial }} != 3 ] || exit 1
      echo "{\\"energy\\": ${{ hp.x ** 2 + (1 if hp.way == 'up' else 0) }}}" > "$DIEL_RESULT"
    outputs: {energy: {value: float}}
  judge:
    over: [trial]
    command: |
      echo "{\\"cost\\": ${{ simulate.energy + abs(hp.n - 4) }}}" > "$DIEL_RESULT"
    outputs: {cost: {value: float}}
  end:
    command: [echo, "${{ inputs.cost }}", "${{ inputs.n }}"]
    inputs:
      cost: {from: judge.cost, at: {trial: best}}
      n: {from: hp.n, at: {trial: best}}
"""
LOOP = """
diel: 1
name: flow
hyperparameters:
  x: {type: float, low: -2, high: 2}
axes:
  round: {loop: {max: 9, until: "best.cost < 0.05 or round == 4"}}
  trial: {search: {sampler: random, trials: 3, seed: 3, minimize: judge.cost, parameters: [x]}}
stages:
  judge:
    over: [round, trial]
    inputs: {before: {from: best.cost, at: {round: previous}, initially: 8.0}}
    command: |
      sleep 0.05
      echo "{\\"cost\\": ${{ inputs.before / 2 + abs(hp.x) / 10 }}}" > "$DIEL_RESULT"
    outputs: {cost: {value: float}}
  best:
    over: [round]
    inputs: {cost: {from: judge.cost, at: {trial: best}}}
    command: |
      echo "{\\"cost\\": ${{ inputs.cost }}}" > "$DIEL_RESULT"
    outputs: {cost: {value: float}}
  end:
    command: [echo, "${{ inputs.cost }}", "${{ best.cost }}"]
    inputs: {cost: {from: best.cost, at: {round: last}}}
"""


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "diel", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def records(folder: Path) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for segment in sorted((folder / "runs" / "flow-1" / "journal").glob("*.jsonl")):
        whole = segment.read_bytes().rpartition(b"\n")[0]
        lines += [json.loads(line) for line in whole.splitlines()]
    return lines


def outcome(folder: Path) -> dict[str, Any]:
    """All that a search or loop decided, by its place, and what the last stage printed."""
    told: dict[str, Any] = {}
    for record in records(folder):
        if record["event"] in ("trial", "judged", "round", "closed"):
            place = f"{record['event']} {record['axis']} {record['context']} {record.get('number', '')}"
            kept = {k: v for k, v in record.items() if k not in ("time", "event")}
            assert told.setdefault(place, kept) == kept, "decided twice, and not the same"
    last = folder / "runs" / "flow-1" / "tasks" / "end"
    told["printed"] = [path.read_text() for path in sorted(last.glob("*/stdout"))][-1]
    return told


def undisturbed(folder: Path, text: str) -> tuple[dict[str, Any], float]:
    """The outcome of a run that is left alone, and how many seconds passed while its tasks ran."""
    folder.mkdir()
    (folder / "flow.yaml").write_text(text)
    process = start(folder, "run", "flow.yaml")
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said.decode()
    times = [record["time"] for record in records(folder)]
    return outcome(folder), max(times) - min(times)


def disturbed(folder: Path, text: str, kills: int, seconds: float, dice: random.Random) -> dict[str, Any]:
    """The outcome of a run whose controller is killed again and again, and resumed."""
    folder.mkdir()
    (folder / "flow.yaml").write_text(text)
    process = start(folder, "run", "flow.yaml")
    for _ in range(kills):
        before = len(records(folder))
        end = time.monotonic() + 60
        while process.poll() is None and len(records(folder)) <= before + 1:
            assert time.monotonic() < end, "nothing went on"
            time.sleep(0.01)
        time.sleep(dice.uniform(0, seconds / kills))
        process.kill()
        process.communicate()
        process = start(folder, "resume", "flow-1")
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said.decode()
    return outcome(folder)


def check(folder: Path, text: str, kills: int) -> None:
    seed = random.randrange(1000)
    print(f"seed {seed}")
    expected, seconds = undisturbed(folder / "alone", text)
    found = disturbed(folder / "killed", text, kills, seconds, random.Random(seed))
    assert found == expected
    counts: dict[tuple[str, int], int] = {}
    for record in records(folder / "killed"):
        if record["event"] == "done":
            place = record["stage"], record["index"]
            counts[place] = counts.get(place, 0) + 1
    assert set(counts.values()) == {1}


@pytest.mark.parametrize("text", [SEARCH.replace("TRIALS", "15"), LOOP], ids=["search", "loop"])
def test_a_search_or_loop_survives_two_kills(tmp_path: Path, text: str) -> None:
    check(tmp_path, text, 2)


@pytest.mark.campaign
@pytest.mark.parametrize("text", [SEARCH.replace("TRIALS", "40"), LOOP], ids=["search", "loop"])
def test_a_search_or_loop_survives_ten_kills(tmp_path: Path, text: str) -> None:
    check(tmp_path, text, 10)
