"""`diel verify`: hashes again what a run made, and says what differs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from diel.artifacts import differences, files_of, text_of
from diel.cli.options import Output, json_option, runs_option
from diel.cli.target import run_argument
from diel.errors import counted
from diel.project.runs import find_run
from diel.results import RunReader
from diel.tasks.results import artifact_home


class ComparedFile(NamedTuple):
    """A file or directory of a run's results, as it is now."""

    output: str
    path: str
    changes: list[str]


@click.command("verify")
@run_argument
@runs_option
@json_option
def command(run: str, runs: Path, out: Output) -> int:
    """Reads all files that the run's results hold, those that came from the cache too, and compares their
    content with the digests of its journal. What was deleted after use is left out. The exit code is 1 where
    anything differs.
    """
    paths = find_run(runs, run)
    checked = list(_checked(RunReader(paths)))
    wrong = [one for one in checked if one.changes]
    rows = [{"output": one.output, "path": one.path, "differences": one.changes} for one in wrong]
    lines = [f"{one.output}: {one.path}: {text_of(one.changes)}" for one in wrong]
    how = f"{len(wrong)} differ" if wrong else "all as they were made"
    lines.append(f"{paths.run_id}: {counted(len(checked), 'output')} compared, {how}")
    out.show(lambda: {"run": paths.run_id, "compared": len(checked), "differ": rows}, lines)
    if wrong and not out.as_json:
        click.echo(
            "no other run takes these from the cache: `diel run` makes them again; "
            f"`diel resume {paths.run_id}` does where tasks have yet to read them",
            err=True,
        )
    return 1 if wrong else 0


def _checked(run: RunReader) -> Iterator[ComparedFile]:
    for stage in run.workflow.stages:
        for index, record in sorted(run.records(stage).items()):
            home, entries = artifact_home(record, run.paths.root), record.get("artifacts", {})
            for name, entry in entries.items():
                for file in () if run.is_dropped(stage, name, index) else files_of(entry):
                    path = f"{home}/{file['path']}"
                    changes = differences(path, file["digest"], file.get("identity", ""), look=False)
                    yield ComparedFile(f"{stage}/{index}.{name}", path, changes)
