"""What fails a run, and what it does without."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.controller.stop_policy import has_failed
from tests.controller.bench import Bench

FLOW = """
axes: {{i: {{range: 4}}}}
stages:
  make: {{command: 'run > $DIEL_RESULT', over: [i]}}
  each: {{command: [echo, "${{{{ make.x }}}}"], over: [i]}}
  mean: {{command: [mean, "${{{{ inputs.x }}}}"], inputs: {{x: {{from: make.x, min_success: {least}}}}}}}
"""


def ended(folder: Path, least: float, *, each: bool = True) -> Bench:
    """A run in which the first of four tasks failed, and all that follows was done or skipped."""
    text = FLOW.format(least=least)
    lines = text.splitlines()
    bench = Bench(folder, "\n".join(line for line in lines if each or not line.startswith("  each")))
    bench.fail("make", 0)
    for index in range(1, 4):
        bench.done("make", index, x=index)
    return bench


def test_a_failure_that_every_reader_goes_on_without_is_tolerated_and_written_down(tmp_path: Path) -> None:
    bench = ended(tmp_path, 0.5, each=False)
    assert not has_failed(bench.stages, bench.ledger)
    assert bench.stages.runs["make"].history.tolerated
    written = bench.paths.controller_segment(1).read_text()
    assert "`min_success` of 'mean'" in written


def test_failures_that_leave_too_few_points_in_common_fail_the_run(tmp_path: Path) -> None:
    """Each edge has enough alone; together they have not, so that the reader was skipped."""
    text = """
    axes: {i: {range: 4}}
    stages:
      a: {command: 'run > $DIEL_RESULT', over: [i]}
      b: {command: 'run > $DIEL_RESULT', over: [i]}
      fit:
        command: [fit]
        inputs: {p: {from: a.x, min_success: 0.7}, q: {from: b.x, min_success: 0.7}}
    """
    bench = Bench(tmp_path, text)
    for stage, bad in (("a", 0), ("b", 1)):
        for index in range(4):
            bench.fail(stage, index) if index == bad else bench.done(stage, index, x=index)
    assert has_failed(bench.stages, bench.ledger)
    assert not bench.stages.runs["a"].history.tolerated


@pytest.mark.parametrize(("least", "each"), [(1.0, False), (0.5, True)])
def test_a_failure_that_one_reader_cannot_do_without_fails_the_run(
    tmp_path: Path, least: float, each: bool
) -> None:
    bench = ended(tmp_path, least, each=each)
    assert has_failed(bench.stages, bench.ledger)
    assert not bench.stages.runs["make"].history.tolerated
