"""Drawings of a stage graph: as text for a terminal, as mermaid, as graphviz's dot, as SVG."""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shutil import which

from diel.base.errors import DielError
from diel.workflow.graph import Edge, StageGraph
from diel.workflow.models import Axis

Paint = Callable[[str, str], str]
"""Colours a text by a state's name."""

LOOKS = {
    "done": ("✓", "#c9e7cb"),
    "failed": ("✗", "#f4b9b5"),
    "running": ("▶", "#bcd9f5"),
    "waiting": ("○", "#eeeeee"),
    "skipped": ("–", "#dddddd"),
    "cancelled": ("–", "#dddddd"),
    "": ("●", "#ffffff"),
}
"""The mark and the colour of a stage, by its state."""
_ASCII = str.maketrans("│─├┤└┘┬┴┼●✓✗▶○–×·→←⇠", "|-++`'+++*vx>o-x,><<") | {ord("…"): "..."}
DOT_SECONDS = 60


@dataclass(frozen=True)
class Node:
    """A stage as a drawing shows it."""

    name: str
    kind: str
    axes: tuple[str, ...]
    tasks: str
    """How many tasks, or their states in a run; empty when unknown."""
    state: str = ""
    """`done`, `failed`, `running`, `waiting`, `skipped` or `cancelled` in a run; empty in a workflow."""


@dataclass(frozen=True)
class Arrow:
    """All that one stage takes from another by the same rule."""

    upstream: str
    downstream: str
    outputs: tuple[str, ...]
    """What is read; empty if the edge only sets the order."""
    rule: str
    """match, gather, broadcast and pick, with their axes; empty if neither stage has any."""
    back: bool = False
    """Whether the reader reads the previous round: such an arrow leads back up."""
    how: str = "after"
    """What there is where nothing is read: `after` or `asks`."""

    @property
    def label(self) -> str:
        """What is read and how, in one line."""
        what = ", ".join(self.outputs) or "order"
        return f"{what}: {self.rule}" if self.rule else what


@dataclass(frozen=True)
class Drawing:
    """What to draw: nodes in an order in which they can run, and their arrows."""

    name: str
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]


def make_drawing(graph: StageGraph, nodes: Mapping[str, Node]) -> Drawing:
    """Return the drawing of a graph, given how each stage shows."""
    return Drawing(graph.workflow.name, tuple(nodes[name] for name in graph.order), tuple(_arrows(graph)))


def rule_words(graph: StageGraph, edge: Edge) -> str:
    """Return how an edge moves data: `match density, gather temperature`."""
    down = graph.workflow.stages[edge.downstream].over
    broadcast = [
        axis for axis in down if axis not in edge.matched and axis not in edge.chosen and axis != edge.axis
    ]
    words = [f"axis {edge.axis}"] if edge.axis is not None else []
    words += [f"match {' × '.join(edge.matched)}"] if edge.matched else []
    words += [f"pick {text}" for text in picked_points(edge)]
    words += [f"gather {' × '.join(edge.gathered)}"] if edge.gathered else []
    words += [f"broadcast over {' × '.join(broadcast)}"] if broadcast and edge.axis is None else []
    return ", ".join(words)


def picked_points(edge: Edge) -> Iterator[str]:
    """Yield the points that `at` picks: `trial = best`, or by parameter where an axis has several."""
    for axis, point in edge.picked.items():
        named = point if isinstance(point, Mapping) else {axis: point}
        yield from (f"{name} = {value}" for name, value in named.items())
    for axis, choice in edge.chosen.items():
        yield f"{axis} = {choice.word}" + (f" {choice.most}" if choice.word == "top" else "")


def axis_text(label: str, axis: Axis, count: str = "") -> str:
    """Return an axis as a node shows it: `t (24)`, `trial (search, up to 16)`, `round (loop)`."""
    kind = axis.word if axis.adaptive else ""
    bound = "up to " if kind and count and axis.may_end_early else ""
    details = ", ".join(filter(None, (kind, f"{bound}{count}")))
    return f"{label} ({details})" if details else label


def _arrows(graph: StageGraph) -> Iterator[Arrow]:
    arrows: dict[tuple[str, str, str, bool, str], list[str]] = {}
    for edge in graph.edges:
        how = "asks" if edge.service else "after"
        key = (edge.upstream, edge.downstream, rule_words(graph, edge), edge.follows, how)
        outputs = arrows.setdefault(key, [])
        read = edge.output if edge.hyperparameter is None else f"hp.{edge.hyperparameter}"
        if read is not None and read not in outputs:
            outputs.append(read)
    for (upstream, downstream, rule, back, how), names in arrows.items():
        yield Arrow(upstream, downstream, tuple(names), rule, back, how)


def draw_text(drawing: Drawing, paint: Paint = lambda text, state: text, *, ascii_only: bool = False) -> str:
    """Draw stages from top to bottom; each runs down in its own lane to its last reader."""
    plain = "\n".join(_text_lines(drawing, paint))
    return plain.translate(_ASCII) if ascii_only else plain


def _text_lines(drawing: Drawing, paint: Paint) -> Iterator[str]:
    order = {node.name: row for row, node in enumerate(drawing.nodes)}
    readers: dict[str, list[int]] = {}
    for arrow in drawing.arrows:
        if order[arrow.upstream] < order[arrow.downstream]:
            readers.setdefault(arrow.upstream, []).append(order[arrow.downstream])
    last = {name: max(rows) for name, rows in readers.items()}
    placed = list(_lanes(drawing, last))
    width = max((len(lanes) for lanes, _, _ in placed), default=0)
    sizes = [
        max((len(text) for text in column), default=0)
        for column in zip(*map(_cells, drawing.nodes), strict=True)
    ]
    for row, (node, (lanes, own, after)) in enumerate(zip(drawing.nodes, placed, strict=True)):
        feeding = {arrow.upstream for arrow in drawing.arrows if arrow.downstream == node.name}
        ending = {name for name in feeding if last.get(name) == row}
        rail = _rail(lanes, own, feeding, ending, LOOKS[node.state][0])
        cells = (text.ljust(size) for text, size in zip(_cells(node), sizes, strict=True))
        yield f"{paint(rail.ljust(2 * width), node.state)} {'  '.join(cells)}".rstrip()
        down = "".join("│ " if name else "  " for name in after).ljust(2 * width)
        for arrow in drawing.arrows:
            if arrow.downstream == node.name:
                back = " (of the previous round)" if arrow.back else ""
                head = "⇠" if arrow.back else "←"
                yield (
                    f"{down}   {head} {arrow.upstream}.{arrow.label}{back}"
                    if arrow.outputs
                    else (f"{down}   ← {arrow.how} {arrow.upstream}{': ' + arrow.rule if arrow.rule else ''}")
                )
        if row + 1 < len(drawing.nodes):
            yield down.rstrip()


def _cells(node: Node) -> tuple[str, ...]:
    return node.name, node.kind, node.tasks, " × ".join(node.axes)


def _lanes(
    drawing: Drawing, last: Mapping[str, int]
) -> Iterator[tuple[list[str | None], int, list[str | None]]]:
    """Return for each node who holds the lanes above it, its own lane, and who holds the lanes below it."""
    lanes: list[str | None] = []
    for row, node in enumerate(drawing.nodes):
        above = list(lanes)
        # A lane that ends here can be reused at once: its line turns into the node.
        free = [at for at, name in enumerate(lanes) if name is None or last[name] == row]
        own = free[0] if free else len(lanes)
        above += [None] * (own + 1 - len(above))
        lanes = [None if name is not None and last[name] == row else name for name in above]
        lanes[own] = node.name if node.name in last else None
        yield above, own, list(lanes)
        while lanes and lanes[-1] is None:
            lanes.pop()


def _rail(lanes: Sequence[str | None], own: int, feeding: set[str], ending: set[str], mark: str) -> str:
    """Return the line of a node: its mark, the lanes that pass it, and those that lead into it."""
    leading = [at for at, name in enumerate(lanes) if name in feeding]
    first, final = min([own, *leading]), max([own, *leading])
    text = ""
    for at, name in enumerate(lanes):
        across = first <= at < final
        if at == own:
            text += mark
        elif name in feeding:
            ends = name in ending
            text += ("└" if ends else "├") if at < own else ("┘" if ends else "┤")
            if first < at < own or own < at < final:
                text = text[:-1] + ("┴" if ends else "┼")
        elif name is not None:
            text += "│"
        else:
            text += "─" if first < at < final else " "
        text += "─" if across else " "
    return text


def draw_mermaid(drawing: Drawing) -> str:
    """Return a mermaid flowchart, which many sites render in Markdown pages."""
    lines = ["flowchart TD"]
    for node in drawing.nodes:
        label = "<br/>".join(text.translate(_MERMAID) for text in (node.name, *_details(node)))
        css = f":::{node.state}" if node.state else ""
        lines.append(f'    {_mermaid_name(node.name)}["{label}"]{css}')
    for arrow in drawing.arrows:
        line = "-->" if arrow.outputs and not arrow.back else "-.->"
        label = arrow.label.translate(_MERMAID)
        up, down = _mermaid_name(arrow.upstream), _mermaid_name(arrow.downstream)
        lines.append(f'    {up} {line}|"{label}"| {down}')
    states = dict.fromkeys(node.state for node in drawing.nodes if node.state)
    lines += [f"    classDef {state} fill:{LOOKS[state][1]},stroke:#555555,color:#000000" for state in states]
    return "\n".join(lines)


_MERMAID = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "\n": " "})


def _mermaid_name(stage: str) -> str:
    """Return an id that no other stage has: names have no dash, and mermaid reads a dot in its own way."""
    return f"s_{stage.replace('.', '-')}"


def _details(node: Node) -> Iterator[str]:
    about = " · ".join(text for text in (node.kind, node.tasks) if text)
    if about:
        yield about
    if node.axes:
        yield " × ".join(node.axes)


def draw_dot(drawing: Drawing) -> str:
    """Return a digraph in graphviz's language."""
    lines = [
        f"digraph {_quoted(drawing.name)} {{",
        '    node [shape=box, style="rounded,filled", fillcolor="#ffffff", fontname="sans-serif"];',
        '    edge [fontname="sans-serif", fontsize=10];',
    ]
    for node in drawing.nodes:
        label = "\\n".join(_escaped(text) for text in (node.name, *_details(node)))
        lines.append(f'    {_quoted(node.name)} [label="{label}", fillcolor="{LOOKS[node.state][1]}"];')
    for arrow in drawing.arrows:
        style = "" if arrow.outputs and not arrow.back else ", style=dashed"
        style += ", constraint=false" if arrow.back else ""
        ends = f"{_quoted(arrow.upstream)} -> {_quoted(arrow.downstream)}"
        lines.append(f"    {ends} [label={_quoted(arrow.label)}{style}];")
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    """Return a text inside a dot string: a backslash would begin an escape, a quote end it."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def draw_svg(drawing: Drawing) -> str:
    """Return the drawing as SVG, by graphviz. Raise DielError as `draw_picture` does."""
    return draw_picture(drawing, "svg").decode()


def draw_picture(drawing: Drawing, form: str) -> bytes:
    """Return the drawing in a format of graphviz: svg, png, pdf. Raise DielError where it fails."""
    program = which("dot")
    if program is None:
        raise DielError(
            f"{form.upper()} needs graphviz's program `dot`, and it is not on PATH: apt install graphviz, "
            "dnf install graphviz, brew install graphviz or conda install graphviz; "
            "--format mermaid and --format dot need nothing"
        )
    words, text = [program, f"-T{form}"], draw_dot(drawing).encode()
    try:
        return subprocess.run(words, input=text, capture_output=True, timeout=DOT_SECONDS, check=True).stdout
    except subprocess.CalledProcessError as error:
        message = error.stderr.decode("utf-8", "replace").strip()
        raise DielError(f"graphviz could not draw it: {message[:300]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DielError(f"graphviz could not draw it: {error}") from error
