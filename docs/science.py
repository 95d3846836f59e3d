"""Runs what docs/science.md claims, as it says, and writes what was found beside it: `make science`.

python docs/science.py            every workflow of the table, one after the other: half an hour or more
python docs/science.py after …    these workflows
python docs/science.py --at DIR   where runs and answers go; build/science if not given
python docs/science.py --list     what would be run

For each workflow, DIR/WORKFLOW.txt has the claims and figures of the table, then each command with what it
printed, the time that it took and how loaded the machine was: the table's own commands, and those of the
workflow's first lines that show results. "`… --set hp.seed=0`, to 4" in the table is five runs.

What remains to be done by hand: comparing both; running again with other seeds (`--set hp.seed=100`); killing
a run in its middle and resuming it; and figures of the table from runs that its text alone describes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE / "science.md"
WORKFLOWS = HERE.parent / "workflows"


@dataclass(frozen=True)
class Row:
    """A claim."""

    workflow: str
    claim: str
    reference: str
    found: str
    commands: tuple[str, ...]
    """Each as it would be typed, without `diel`."""


def rows(text: str) -> list[Row]:
    """The claims of the table, with the details below it. Raises ValueError where one lacks them."""
    table = re.findall(r"^\| \[(\w+)\]\S* \| (.*?) \|", text, re.MULTILINE)
    details = [
        (section.partition("\n")[0], facts)
        for section in text.split("\n## ")[1:]
        for facts in re.findall(r"</summary>\n(.*?)</details>", section, re.DOTALL)
    ]
    if [workflow for workflow, _ in table] != [workflow for workflow, _ in details]:
        raise ValueError("expected details for each claim of the table, in its order")
    claims = []
    for (workflow, claim), (_, facts) in zip(table, details, strict=True):
        cells = dict(re.findall(r"^- (Reference|Found|Commands): (.*)$", facts, re.MULTILINE))
        if not {"Reference", "Found"} <= cells.keys():
            raise ValueError(f"expected a reference and figures: {workflow}: {claim}")
        commands = tuple(_commands(cells.get("Commands", "")))
        claims.append(Row(workflow, claim, cells["Reference"], cells["Found"], commands))
    return claims


def _commands(cell: str) -> list[str]:
    """The commands of a cell; one with "to N" after it is one for each seed."""
    commands = []
    for match in re.finditer(r"`diel ([^`]+)`(?:, to (\d+))?", cell):
        if match[2] is None:
            commands.append(match[1])
            continue
        before, first = re.fullmatch(r"(.*hp\.seed=)(\d+)", match[1]).groups()  # type: ignore[union-attr]
        commands += [f"{before}{seed}" for seed in range(int(first), int(match[2]) + 1)]
    return commands


def plan(workflow: str, table: list[Row]) -> tuple[list[str], list[str]]:
    """The runs of a workflow, and what is asked after each of them."""
    said = [command for row in table if row.workflow == workflow for command in row.commands]
    head = (WORKFLOWS / f"{workflow}.yaml").read_text("utf-8").partition("\ndiel: 1")[0]
    said += re.findall(r"^#     diel ((?:logs|results|status)\b.*?)(?:\s{2,}#.*)?$", head, re.MULTILINE)
    # `last` is what a command takes if it is not told
    said = [re.sub(r"^(logs|results)(?: last)?\b", r"\1 last", command) for command in said]
    asks = [command for command in dict.fromkeys(said) if not command.startswith("run ")]
    return [command for command in dict.fromkeys(said) if command.startswith("run ")], asks


def follow(workflow: str, table: list[Row], at: Path) -> bool:
    """Runs a workflow and writes what was found; says whether all commands succeeded."""
    folder, succeeded = at / workflow, True
    runs, asks = plan(workflow, table)
    with (at / f"{workflow}.txt").open("w", encoding="utf-8") as file:

        def write(text: str) -> None:
            sys.stdout.write(text)
            sys.stdout.flush()
            file.write(text)
            file.flush()

        for row in table:
            if row.workflow == workflow:
                write(f"claim: {row.claim}\nreference: {row.reference}\nfound: {row.found}\n\n")
        if not folder.exists():
            _diel(["init", "--from", workflow, str(folder)], at)
        for run in runs:
            began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
            done = _diel(run.split(), folder)
            spent = resource.getrusage(resource.RUSAGE_CHILDREN)
            processor = spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime
            write(
                f"$ diel {run}\n{done.stdout[-4000:]}\n"
                f"took {time.monotonic() - began:.0f} s, {processor:.0f} s of processor time, "
                f"at a load of {os.getloadavg()[1]:.1f}\n\n"
            )
            succeeded &= not done.returncode
            for ask in asks:
                said = _diel(ask.split(), folder)
                succeeded &= not said.returncode
                write(f"$ diel {ask}\n{said.stdout}\n")
    return succeeded


def _diel(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command of diel; what it says on stderr comes with what it prints."""
    command = [sys.executable, "-m", "diel", *words]
    return subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="WORKFLOW")
    parser.add_argument("--at", type=Path, metavar="DIR", default=Path("build/science"))
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    table = rows(TABLE.read_text("utf-8"))
    there = list(dict.fromkeys(row.workflow for row in table))
    if unknown := [name for name in given.names if name not in there]:
        parser.error(f"no row of the table has {', '.join(unknown)}; it has {', '.join(there)}")
    names = given.names or there
    if given.list:
        with contextlib.suppress(BrokenPipeError):  # `--list | head`
            for name in names:
                runs, asks = plan(name, table)
                sys.stdout.write("".join(f"{name}: diel {one}\n" for one in (*runs, *asks)))
                sys.stdout.flush()
        return
    failed = []
    for name in names:
        given.at.mkdir(parents=True, exist_ok=True)
        if not follow(name, table, given.at.resolve()):
            failed.append(name)
    sys.stdout.write(f"What was found is in {given.at}, a file for each workflow.\n")
    if failed:
        sys.exit(f"with commands that failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
