"""`diel explain`: why a run, a stage or a task is in its present state."""

from pathlib import Path

import click

from diel.base.errors import UsageError
from diel.cli.options import Output, json_option, runs_option
from diel.cli.target import run_and_rest, targets, the_task, words_argument
from diel.observe.explain import Explanation
from diel.observe.explain.attempts import explain_block
from diel.observe.explain.run import explain_run
from diel.observe.explain.task import explain_task
from diel.observe.results import RunReader, read


@click.command("explain")
@words_argument("[RUN] [STAGE|TASK] [NAME=VALUE]...")
@runs_option
@json_option
@click.option("--block", metavar="BLOCK", help="Explain this block of the run: `1-0`, or its job's id.")
def command(words: tuple[str, ...], runs: Path, out: Output, block: str | None) -> None:
    """Also says how a block ended.

    \b
        diel explain                    the last run: what failed, waits, runs
        diel explain last train         one stage
        diel explain last simulate/3    one task: its parameters, inputs, attempts
        diel explain simulate depth=2.5 seed=1   the same, by its point
        diel explain last --block 1-0   one block of a scheduler, by its name or its job's id
    """
    paths, rest = run_and_rest(runs, words)
    named = targets(rest)
    if len(named) > 1:
        raise UsageError(f"expected RUN and one STAGE or TASK, also found '{named[1]}'")
    if rest and block is not None:
        raise UsageError(f"--block explains a block, not '{rest[0]}': give one or the other")

    def explained(run: RunReader) -> Explanation:
        if block is not None:
            return explain_block(run, block)
        if named and (named[0].at or "/" in named[0].word):
            return explain_task(run, *the_task(run, named[0]))
        if named:
            run.check_stage(named[0].word)
        return explain_run(run, named[0].word if named else None)

    explanation, flaws = read(paths, explained)
    damaged = {"damaged": flaws} if flaws else {}
    out.show(lambda: {**explanation.document, **damaged}, explanation.lines, flaws)
