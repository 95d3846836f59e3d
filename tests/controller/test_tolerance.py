"""What fails a run, and what it does without."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.controller.tolerance import has_failed
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


@pytest.mark.parametrize(("least", "each"), [(1.0, False), (0.5, True)])
def test_a_failure_that_one_reader_cannot_do_without_fails_the_run(
    tmp_path: Path, least: float, each: bool
) -> None:
    bench = ended(tmp_path, least, each=each)
    assert has_failed(bench.stages, bench.ledger)
    assert not bench.stages.runs["make"].history.tolerated
