"""What pruning saves: the epochs that trials do not do, and the time that a search does not take."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

EPOCHS, SECONDS, TRIALS = 27, 0.06, 30
FLOW = """
    diel: 1
    name: pruning
    hyperparameters: {{x: {{type: float, low: 0, high: 1}}}}
    axes:
      trial:
        search: {{sampler: random, trials: {trials}, seed: 3, parallel: 2, minimize: train.loss,
                  parameters: [x], pruner: {pruner}}}
    stages:
      train: {{over: [trial], module: "work:train", params: {{x: "${{{{ hp.x }}}}"}}}}
"""
WORK = f"""
    import time
    import diel

    @diel.module(kind="training")
    def train(context: diel.Context, x: float) -> dict:
        for epoch in range({EPOCHS}):
            time.sleep({SECONDS})
            context.report(epoch=epoch, loss=x + 1 / (epoch + 1))
        return {{"loss": x}}
"""
PRUNER = "{name: median, n_startup_trials: 4, n_warmup_steps: 5}"


def pruning(runs: int) -> None:
    """Pairs in turn: without a pruner, with one."""
    saved = []
    for _ in range(runs):
        (all_epochs, whole), (epochs, short) = (_search(pruner) for pruner in ("none", PRUNER))
        saved.append((1 - epochs / all_epochs, 1 - short / whole))
        print(f"  {all_epochs} epochs in {whole:.1f} s, with the pruner {epochs} in {short:.1f} s")
    fewer, less = (statistics.median(shares) for shares in zip(*saved, strict=True))
    print(f"  {fewer:.0%} fewer epochs of {1000 * SECONDS:.0f} ms, {less:.0%} less time (medians of {runs})")


def _search(pruner: str) -> tuple[int, float]:
    """The epochs that its trials did, and the seconds that the command took."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "modules").mkdir()
        (folder / "modules/work.py").write_text(textwrap.dedent(WORK))
        text = textwrap.dedent(FLOW).format(trials=TRIALS, pruner=pruner)
        (folder / "flow.yaml").write_text(text)
        began = time.perf_counter()
        words = [sys.executable, "-m", "diel", "run", "flow.yaml", "--quiet"]
        subprocess.run(words, cwd=folder, check=True, capture_output=True)
        seconds = time.perf_counter() - began
        files = folder.glob("runs/*/tasks/train/*/.metrics.jsonl")
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return len(lines), seconds
