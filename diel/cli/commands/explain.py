"""`diel explain`: why a run, a stage or a task is in its present state."""

from __future__ import annotations

import json
from pathlib import Path

import click

from diel.cli.options import json_option, runs_option
from diel.cli.target import complete_stage, run_and_rest
from diel.errors import UsageError, did_you_mean
from diel.explain import explain_block, explain_run, explain_task
from diel.results import Recorded


@click.command("explain")
@click.argument("words", nargs=-1, metavar="[RUN] [STAGE|TASK]", shell_complete=complete_stage)
@runs_option
@json_option
@click.option("--block", metavar="BLOCK", help="Explain this block of the run: `1-0`, or its job's id.")
def command(words: tuple[str, ...], runs: Path, as_json: bool, block: str | None) -> int:
    """Also says how a block ended.

    \b
        diel explain                    the last run: what failed, waits, runs
        diel explain last train         one stage
        diel explain last simulate/3    one task: its parameters, inputs, attempts
        diel explain last --block 1-0   one block of a scheduler, by its name or its job's id
    """
    paths, rest = run_and_rest(runs, words)
    if len(rest) > 1:
        raise UsageError(f"expected RUN and one STAGE or TASK, also found '{rest[1]}'")
    if rest and block is not None:
        raise UsageError(f"--block explains a block, not '{rest[0]}': give one or the other")
    run = Recorded(paths)
    stage, index = _target(run, rest[0]) if rest else (None, None)
    if block is not None:
        found = explain_block(run, block)
    elif stage is not None and index is not None:
        found = explain_task(run, stage, index)
    else:
        found = explain_run(run, stage)
    click.echo(json.dumps(found.document) if as_json else "\n".join(found.lines))
    return 0


def _target(run: Recorded, word: str) -> tuple[str, int | None]:
    """STAGE or STAGE/INDEX; raises UsageError if there is no such stage."""
    stage, slash, number = word.partition("/")
    stages = run.workflow.stages
    if stage not in stages:
        hint = did_you_mean(stage, stages) or f"stages: {', '.join(stages)}"
        raise UsageError(f"{run.paths.run_id} has no stage '{stage}'; {hint}")
    if not slash:
        return stage, None
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise UsageError(f"'{word}': expected STAGE/INDEX, such as {stage}/0")
    return stage, int(number)
