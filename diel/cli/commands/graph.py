"""`diel graph`: draws the stage graph of a workflow or a run, or writes it for other programs."""

import sys
from collections.abc import Mapping
from math import prod
from pathlib import Path

import click

from diel.base.errors import UsageError
from diel.cli.options import output_option, put, runs_option
from diel.cli.target import is_file
from diel.export.network import FORMATS, draw_run, stage_facts, stage_network, write_network
from diel.observe.results import RunReader
from diel.planning.check import check
from diel.store.project.runs import find_run
from diel.workflow import drawing
from diel.workflow.models import Stage, Workflow

DRAWERS = {"mermaid": drawing.draw_mermaid, "dot": drawing.draw_dot, "svg": drawing.draw_svg}
ENDINGS = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid"}
ENDINGS |= dict.fromkeys(("", ".txt", ".text"), "text")
ENDINGS |= {f".{form}": form for form in FORMATS}
PICTURES = ("png", "pdf")
"""Made by graphviz, into a file only."""
COLOURS = {"done": "green", "failed": "red", "running": "cyan", "skipped": "yellow", "cancelled": "yellow"}


@click.command("graph")
@click.argument("target", default="last", metavar="[FILE|RUN]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", *DRAWERS, *PICTURES, *FORMATS]),
    help="Format; if not given, by the suffix of -o, else text.",
)
@output_option
@runs_option
def command(target: str, form: str | None, output: Path | None, runs: Path) -> None:
    """Show the states of stages in the graph of a RUN. An arrow says what a stage reads and by which rule:
    `match` reads the task at the same point, `gather` all tasks along an axis, `broadcast` gives the same
    to every task, `pick` takes one.
    """
    ending = "" if output is None else output.suffix.lower()
    picture = form or ending[1:]
    if form is None and ending not in ENDINGS and picture not in PICTURES:
        endings = ", ".join([*filter(None, ENDINGS), *(f".{kind}" for kind in PICTURES)])
        raise UsageError(f"{output}: no format ends in {ending}; there are {endings}, or give --format")
    if picture in PICTURES and output is None:
        raise UsageError(f"{picture} is no text: name a file, -o graph.{picture}")
    run = None if is_file(target) else RunReader(find_run(runs, target))
    graph = _of_file(Path(target), runs) if run is None else draw_run(run)
    if picture in FORMATS:
        network = stage_network(graph, None if run is None else stage_facts(run))
        put(write_network(network, picture), output)
    elif picture in PICTURES:
        put(drawing.draw_picture(graph, picture), output)
    else:
        put(_draw(graph, form or ENDINGS[ending], output), output)


def _draw(graph: drawing.Drawing, form: str, output: Path | None) -> str:
    if form in DRAWERS:
        return DRAWERS[form](graph)
    if output is not None:
        return drawing.draw_text(graph)
    encoding = sys.stdout.encoding or "ascii"
    ascii_only = "│─●✓".encode(encoding, "ignore").decode(encoding) != "│─●✓"
    return drawing.draw_text(graph, _painted, ascii_only=ascii_only)


def _painted(text: str, state: str) -> str:
    return click.style(text, fg=COLOURS[state]) if state in COLOURS else text


def _of_file(path: Path, runs: Path) -> drawing.Drawing:
    checked = check(path, runs=runs)
    workflow, counts = checked.workflow, checked.counts
    sizes = {label: "…" if count is None else f"{count:,}" for label, count in counts.items()}
    nodes = {}
    for name, stage in workflow.stages.items():
        axes = tuple(drawing.axis_text(label, workflow.axes[label], sizes[label]) for label in stage.over)
        nodes[name] = drawing.Node(name, checked.kind(name), axes, _tasks(workflow, stage, counts))
    return drawing.make_drawing(checked.graph, nodes)


def _tasks(workflow: Workflow, stage: Stage, counts: Mapping[str, int | None]) -> str:
    factors = [*(counts[axis] for axis in stage.over), stage.replicas]
    if None in factors:
        return "… tasks"
    bound = "up to " if any(workflow.axes[label].may_end_early for label in stage.over) else ""
    total = prod(count or 0 for count in factors)
    return "1 task" if total == 1 else f"{bound}{total:,} tasks"
