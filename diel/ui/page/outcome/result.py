"""The panels of what tasks made: numbers as plots, chosen by what the axes are, and files with images."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple
from xml.parsers.expat import ExpatError, ParserCreate

from diel.base.errors import counted
from diel.base.states import TaskState
from diel.base.terms import SIMULATED
from diel.base.values import format_size, is_finite
from diel.observe.results import DROPPED, RunReader
from diel.observe.results.rows import output_rows
from diel.store.artifacts import files_of
from diel.store.journal.records import Made
from diel.store.table import shown
from diel.tasks.results import artifact_home, outputs_of
from diel.ui.page.panel import POINTS, Cell, Grid, Part, Picture, Plot, RunView, Text, good_of
from diel.ui.page.plot import FEW, Column, Row, amount, figure, kind_of, layer, one_of, thinned, tips

GRID = 5
"""The fewest points along both axes of a heat map."""
NAMES = 16
"""The most names that are columns of dots where their points have numbers too."""
FIGURES = 6
TASKS = Column("n", "n", "number", counts=True)
OUTPUTS = 40


def parts(view: RunView) -> Iterator[Part]:
    run = view.run
    rows = [row for stage, (records, _) in view.records.items() for row in _outputs(run, stage, records)]
    for stage, (records, rule) in view.records.items():
        if not rule and (lost := run.damaged(stage, len(records))):
            yield Text(f"{stage}: {counted(lost, 'result')} damaged in the journal, and not shown.", "bad")
    if not rows:
        return
    heads = ("output", "axes", "results", "first")
    yield Grid("What the stages made", heads, rows[:OUTPUTS], max(0, len(rows) - OUTPUTS))
    for stage, (records, rule) in view.records.items():
        sample = sample_of(run, stage, records, rule)
        if sample is not None:
            yield from _figures(stage, sample)


def _outputs(run: RunReader, stage: str, records: Mapping[int, Made]) -> Iterator[list[Cell]]:
    """Yield a row for each output of a stage, with its first value; of a file its path in the run."""
    history = run.history.stage(stage)
    whole = len(records) == good_of(history)
    total = f"{history.expected:,}" if whole else f"{len(records):,} that were looked at"
    for *head, value in output_rows(run, stage, records, total):
        text = str(value) if isinstance(value, str) else shown(value)
        yield [*head, text.removeprefix(f"{run.paths.root}/")[:80]]


def _figures(stage: str, sample: "DrawnStage") -> Iterator[Part]:
    groups = [plots(stage, sample, number) for number in sample.numbers]
    first, rest = [choices[:1] for choices in groups], [choices[1:] for choices in groups]
    chosen = [figure for figures in (*first, *rest) for figure in figures][:FIGURES]
    if chosen:
        yield one_of(f"{stage}: show", chosen)
    for y in sample.numbers if chosen else ():
        if bare := sum(y.key not in row for row in sample.rows):
            yield Text(
                f"{stage}: {bare:,} of {len(sample.rows):,} have no {y.name} that can be drawn.", "note"
            )
    answers = sum(row.get(BY.key) == "model" for row in sample.rows)
    notes = [f"a model answered {answers:,} of these results, which are in their means"] if answers else []
    notes += [f"{name} is a number in too few results, and not drawn" for name in sample.bare]
    more = sum(map(len, groups)) - len(chosen)
    notes += [f"{counted(more, 'more chart')} of them not shown"] if more else []
    yield from (Text(f"{stage}: {note}.", "note") for note in (*notes, sample.rule) if note)


def plots(stage: str, sample: "DrawnStage", y: Column) -> list[tuple[str, Plot]]:
    """Return the plots of one output, the one that suits its axes first: each with its name. A grid of two
    axes with numbers is a heat map, and lines; points with several numbers each, as a sample or a search has
    them, are dots; an axis of names beside mere seeds is dots in columns."""
    rows = [row for row in sample.rows if is_finite(row.get(y.key))]
    if len(rows) < 2:
        return []
    view = _View(stage, sample, rows, y)
    axes = sorted(sample.axes, key=view.rank)
    if view.leads[axes[0]].kind == "name":
        return [view.dots(axes[0])]
    numbers = [axis for axis in axes if view.leads[axis].kind != "name"]
    several = view.numbers(numbers[0])
    figures = [view.heat(numbers[0], other) for other in numbers[1:2] if view.is_grid(numbers[0], other)]
    if len(several) > 1 or numbers[0] in sample.searched:
        figures += [view.map(*several)] if len(several) == 2 else []
        figures += [view.scatter(lead) for lead in several[:4]]
    along = [axis for axis in numbers if len(view.numbers(axis)) == 1 and axis not in sample.searched]
    figures += [view.lines(axis) for axis in along[:2] if axis == numbers[0] or not view.leads[axis].counts]
    return figures


class _View:
    """The rows of one output, and how they can be drawn."""

    def __init__(self, stage: str, sample: "DrawnStage", rows: Sequence[Row], y: Column) -> None:
        self.stage, self.sample, self.axes, self.rows, self.y = stage, sample, sample.axes, rows, y
        self.all = [column for columns in self.axes.values() for column in columns]
        self.all += [BY] if any(BY.key in row for row in rows) else []
        self.every = [*self.all, y]
        self.leads = {axis: self._lead(columns) for axis, columns in self.axes.items()}
        """What an axis is drawn by."""
        self.sizes = {axis: len({row.get(column.key) for row in rows}) for axis, column in self.leads.items()}

    def _lead(self, columns: Sequence[Column]) -> Column:
        """Return a few names that stand first and tell points apart; else a number before a count."""
        points = {tuple(row.get(lead.key) for lead in columns) for row in self.rows}
        named = columns[0].kind == "name" and len({point[0] for point in points}) == len(points) <= NAMES
        return columns[0] if named else min(columns, key=lambda lead: (lead.kind == "name", lead.counts))

    def rank(self, axis: str) -> tuple[int, int]:
        """Rank axes: three numbers or more, the longest first; then rounds, two numbers, names, and seeds."""
        lead, size = self.leads[axis], self.sizes[axis]
        if lead.kind == "name":
            return 3, -size
        if lead.counts:
            return 1 if axis in self.sample.rounds else 4, -size
        return 0 if size > 2 else 2, -size

    def numbers(self, axis: str) -> list[Column]:
        """Return those of a point's numbers that do more than count."""
        numeric = [column for column in self.axes[axis] if column.kind != "name" and not column.counts]
        return numeric or [self.leads[axis]]

    def is_grid(self, a: str, b: str) -> bool:
        if self.leads[b].counts or min(self.sizes[a], self.sizes[b]) < GRID:
            return False
        places = {(row.get(self.leads[a].key), row.get(self.leads[b].key)) for row in self.rows}
        return len(places) > self.sizes[a] * self.sizes[b] // 2

    def _colour(self, *used: str) -> str | None:
        """Return the first other axis with few points; one that only counts where there is no other."""
        few = [axis for axis in self.axes if axis not in used and self.sizes[axis] <= FEW]
        return min(few, key=lambda axis: self.leads[axis].counts, default=None)

    def _plot(self, caption: str, columns: Sequence[Column], drawing: Mapping[str, Any], **more: int) -> Plot:
        caption = f"{self.stage}: {caption}"
        return figure(caption, columns, self.rows, drawing, drawn=self.sample.rows, **more)

    def lines(self, axis: str) -> tuple[str, Plot]:
        """Return a line for each point of an axis with few; of further axes the mean and the range."""
        x, by = self.leads[axis], self._colour(axis)
        colour = None if by is None else self.leads[by]
        over = [label for label in self.axes if label not in (axis, by)]
        name = f"{self.y.name} along {x.name}"
        encoding: dict[str, Any] = {"x": x.axis(), **({} if colour is None else {"color": colour.named()})}
        if over:
            return name, self._means(name, x, colour, over, encoding)
        encoding |= {"y": self.y.axis(), "tooltip": tips(self.every)}
        suffix = "" if colour is None else f", a line for each {colour.name}"
        return name, self._plot(name + suffix, self.every, layer({"type": "line", "point": True}, **encoding))

    def _means(
        self, name: str, x: Column, colour: Column | None, over: Sequence[str], encoding: Mapping[str, Any]
    ) -> Plot:
        columns, rows = self._spread(x, colour)
        shared = {**encoding, "tooltip": tips(columns)}
        line, ends = {**shared, "y": self.y.axis()}, {"y": self.y.axis(field="low"), "y2": {"field": "high"}}
        layers = (
            layer({"type": "area", "opacity": 0.2}, **shared, **ends),
            layer({"type": "line", "point": True}, **line),
            layer({"type": "text", "dy": -9, "fontSize": 10}, **line, text=amount("n")),
        )
        caption = f"the mean of {name}, its range over {' and '.join(over)}, and n, the tasks in it"
        return figure(f"{self.stage}: {caption}", columns, rows, *layers)

    def _spread(self, x: Column, by: Column | None) -> tuple[list[Column], list[Row]]:
        """Return mean, least, most and number of results at each point of one or two columns."""
        low, high = Column("low", "least", "number"), Column("high", "most", "number")
        columns = [x, *([] if by is None else [by]), self.y, low, high, TASKS]
        return columns, means(self.sample.rows, x, by, self.y)

    def heat(self, a: str, b: str) -> tuple[str, Plot]:
        """Return a field for each pair of points; of further axes the mean."""
        x, up, over = self.leads[a], self.leads[b], [axis for axis in self.axes if axis not in (a, b)]
        columns, rows = self._spread(x, up) if over else ([x, up, self.y], self.rows)
        placed = {"x": x.steps(), "y": up.steps(sort="descending"), "tooltip": tips(columns)}
        fields = layer("rect", **placed, color=self.y.colour())
        suffix = f", the mean over {' and '.join(over)}" if over else ""
        drawn = rows if over else self.sample.rows
        caption = f"{self.stage}: {self.y.name} over {x.name} and {up.name}{suffix}"
        return f"{self.y.name} as a heat map", figure(caption, columns, rows, fields, height=300, drawn=drawn)

    def scatter(self, x: Column) -> tuple[str, Plot]:
        """Return a dot for each task along one of several numbers; shapes and colours for a few names."""
        names = (col for col in self.all if col.kind == "name")
        few = next((col for col in names if len({row.get(col.key) for row in self.rows}) <= FEW), None)
        encoding = {"x": x.axis(), "y": self.y.axis(), "tooltip": tips(self.every)}
        encoding |= {} if few is None else {"color": few.colour(), "shape": few.colour()}
        name = f"{self.y.name} against {x.name}"
        return name, self._plot(name, self.every, layer({"type": "point", "opacity": 0.8}, **encoding))

    def map(self, x: Column, up: Column) -> tuple[str, Plot]:
        """Return a dot for each task over two numbers, in the colour of its result."""
        encoding = {"x": x.axis(), "y": up.axis(), "color": self.y.colour(), "tooltip": tips(self.every)}
        name = f"{self.y.name} over {x.name} and {up.name}"
        dots = layer({"type": "point", "size": 70}, **encoding)
        return name, self._plot(name, self.every, dots, height=300)

    def dots(self, axis: str) -> tuple[str, Plot]:
        """Return columns of dots above names."""
        x, by = self.leads[axis], self._colour(axis)
        encoding = {"x": x.axis(axis={"labelAngle": 0}), "y": self.y.axis(), "tooltip": tips(self.every)}
        encoding |= {} if by is None else {"color": self.leads[by].named()}
        name = f"{self.y.name} by {x.name}"
        return name, self._plot(name, self.every, layer({"type": "point", "size": 60}, **encoding))


def means(rows: Sequence[Row], x: Column, colour: Column | None, y: Column) -> list[Row]:
    """Return mean, least and most of `y` at each point of `x` and of a series; only n where `y` has none."""
    groups: dict[tuple[Any, Any], list[float]] = {}
    for row in rows:
        if row.get(x.key) is not None:
            place = row[x.key], None if colour is None else row.get(colour.key)
            groups.setdefault(place, []).extend([row[y.key]] if y.key in row else [])
    return [
        {
            x.key: at,
            **({} if colour is None else {colour.key: name}),
            **({y.key: fmean(values), "low": min(values), "high": max(values)} if values else {}),
            "n": len(values),
        }
        for (at, name), values in groups.items()
    ]


BY = Column("by", "result of", "name")
"""Whether a result was simulated, or answered by a model."""
_LOST = (TaskState.FAILED, TaskState.CANCELLED, TaskState.SKIPPED)


class DrawnStage(NamedTuple):
    """What is drawn of a stage."""

    rows: Sequence[Row]
    """In the order of the tasks: `task`, and the columns by their keys; those without a result too."""
    axes: Mapping[str, Sequence[Column]]
    """By axis the parameters that differ; a search's trials, and what it set for them."""
    numbers: Sequence[Column]
    rounds: frozenset[str]
    """The axes whose points follow one another."""
    searched: frozenset[str]
    """The axes whose points a search drew."""
    rule: str
    """Which results are drawn, if not all are."""
    bare: Sequence[str]
    """Outputs with numbers of which there is no chart."""


def sample_of(run: RunReader, stage: str, records: Mapping[int, Made], rule: str = "") -> DrawnStage | None:
    """Return what is drawn of a stage; None where fewer than two results have a number that differs."""
    domain = run.domain(stage)
    if domain is None or domain.size < 2:
        return None
    outputs = _number_outputs(records.values())
    if len(records) < 2 or not outputs:
        return None
    indices = sorted({*records, *_holes(run, stage, len(records))})
    points = [run.setting(stage, index) for index in indices]
    names = [name for name in dict.fromkeys(key for keys in points for key in keys) if _differs(points, name)]
    rows: list[dict[str, Any]] = []
    for index, point in zip(indices, points, strict=True):
        values = records.get(index, {}).get("values", {})
        results = {f"y{place}": values.get(name) for place, name in enumerate(outputs)}
        at = {f"x{place}": point.get(name) for place, name in enumerate(names)}
        drawn = {key: value for key, value in results.items() if is_drawable(value)}
        by = {BY.key: "simulation" if values[SIMULATED] else "model"} if SIMULATED in values else {}
        rows.append({"task": f"{stage}/{index}", **at, **drawn, **by})
    numbers = [
        Column(key, named_output(run, stage, name), kind_of((row.get(key) for row in rows), spaced=False))
        for place, name in enumerate(outputs)
        if _differs(rows, key := f"y{place}")
    ]
    of = {name: label for label in domain.axes for name in _parameters(run, label)}
    columns_of = {name: _point_column(run, place, name, of[name], rows) for place, name in enumerate(names)}
    adaptive = frozenset(domain.axes) & frozenset(run.adaptive)
    rounds = frozenset(label for label in adaptive if run.adaptive[label].axis.in_turn)
    axes: dict[str, list[Column]] = {}
    for name, column in columns_of.items():
        axes.setdefault(of[name], []).append(column)
    pairs = [item for keys in records.values() for item in keys.get("values", {}).items()]
    bare = sorted({name for name, value in pairs if is_finite(value)}.difference(outputs))
    drawn_stage = DrawnStage(rows, axes, numbers, rounds, adaptive - rounds, rule, bare)
    return drawn_stage if numbers and axes else None


def _holes(run: RunReader, stage: str, most: int) -> list[int]:
    """Return tasks that failed, or never ran for it: no line leads over them. Of many, an even choice."""
    history = run.history.stage(stage)
    apart = history.left_out
    lost = (i for i, state in enumerate(history.states) if state in _LOST and not any(apart[i : i + 1]))
    return thinned([*lost], max(most, POINTS))


def is_drawable(value: Any) -> bool:
    """Return whether a chart can draw it: charts also compute ratios and differences of such numbers."""
    return is_finite(value) and (value == 0 or 1e-300 < abs(value) < 1e300)


def _number_outputs(records: Any) -> list[str]:
    """Return the outputs that are a number for at least half of those that made them."""
    numbers: Counter[str] = Counter()
    there: Counter[str] = Counter()
    order: dict[str, None] = {}
    for record in records:
        order.update(dict.fromkeys(outputs_of(record)))
        for name, value in record.get("values", {}).items():
            there[name] += 1
            numbers[name] += is_drawable(value)
    return [name for name in order if numbers[name] >= 2 and 2 * numbers[name] >= there[name]]


def _differs(rows: Sequence[Row], key: str) -> bool:
    texts = [str(row[key]) for row in rows if row.get(key) is not None]
    return len(set(texts)) > 1


def _parameters(run: RunReader, label: str) -> Sequence[str]:
    points, adaptive = run.points(label), run.adaptive.get(label)
    drawn = () if adaptive is None else [f"hp.{name}" for name in adaptive.axis.sets]
    return (*(() if points is None else points.parameters), *drawn)


def _point_column(run: RunReader, place: int, name: str, axis: str, rows: Sequence[Row]) -> Column:
    """Return a parameter: on a logarithmic scale if its axis is spaced so, or a search draws it so."""
    key = f"x{place}"
    kind = kind_of(row.get(key) for row in rows)
    if kind == "name":
        return Column(key, name, kind)
    points = run.points(axis)
    if points is None or name not in points.parameters:
        parameter = run.workflow.hyperparameters[name.removeprefix("hp.")]
        return Column(key, name, "log" if parameter.log else "number")
    values = points.columns[points.parameters.index(name)]
    if isinstance(values, range):
        return Column(key, name, "number", counts=True)
    if getattr(values, "powers", False):
        kind = "log"
    return Column(key, name, kind)


def named_output(run: RunReader, stage: str, name: str) -> str:
    """Return an output, with the units that its stage promises: `energy (eV)`."""
    output = run.workflow.stages[stage].outputs.get(name)
    units = None if output is None else output.units
    return f"{name} ({units})" if isinstance(units, str) and units != "1" else name


FILES = 200
PICTURES = 24
LARGEST = 150_000
"""Bytes of an image that is shown; larger ones are named."""
TOGETHER = 450_000
"""Bytes of all images of a page."""
_Image = tuple[str, str, Path, str]
"""Its task, its output, where the paths of its run begin, and its path."""
_MEDIA = {".png": "image/png", ".svg": "image/svg+xml"}


def artifacts(view: RunView) -> Iterator[Part]:
    run = view.run
    rows: list[list[Cell]] = []
    images: dict[str, dict[int, list[_Image]]] = {}
    whole = 0
    for stage, (records, rule) in view.records.items():
        if rule and any(drawn.get("artifacts") for drawn in records.values()):
            yield Text(f"{stage}: {rule.replace('drawn', 'listed')}.", "note")
        for index in sorted(records):
            record, task = records[index], f"{stage}/{index}"
            entries = record.get("artifacts", {}).items()
            for name, file in ((name, file) for name, entry in entries for file in files_of(entry)):
                whole += 1
                dropped = run.is_dropped(stage, name, index)
                if len(rows) < FILES:
                    size = format_size(file["size"]) if isinstance(file.get("size"), int) else None
                    about = (DROPPED if dropped else size, str(file.get("digest", "")), record.get("run", ""))
                    rows.append([file["path"], name, task, *about])
                if Path(file["path"]).suffix.lower() in _MEDIA and not dropped:
                    image = (task, name, artifact_home(record, run.paths.root), file["path"])
                    images.setdefault(stage, {}).setdefault(index, []).append(image)
    if rows:
        heads = ("path in the run", "output", "task", "size", "digest (XXH3)", "from")
        yield Grid("Files that tasks made", heads, rows, whole - len(rows))
    yield from _pictures(view, images)


def _chosen(images: Mapping[str, Mapping[int, Sequence[_Image]]]) -> Iterator[_Image]:
    """Return all images of some tasks of each stage, evenly chosen, so that they can be compared."""
    for tasks in images.values():
        most = max(map(len, tasks.values()))
        for index in thinned(list(tasks), max(1, PICTURES // (len(images) * most))):
            yield from thinned(tasks[index], PICTURES)


def _pictures(view: RunView, images: Mapping[str, Mapping[int, Sequence[_Image]]]) -> Iterator[Part]:
    """Yield images that are there and small enough; of many, some."""
    room, shown = TOGETHER, 0
    for task, name, home, place in islice(_chosen(images), PICTURES):
        data = _image(home, place, min(LARGEST, room))
        if data is None:
            continue
        room, shown = room - len(data), shown + 1
        caption = f"{view.run.named(task)}: {name}"
        yield Picture(caption, f"{name} of {caption}", _MEDIA[Path(place).suffix.lower()], data)
    whole = sum(len(pictures) for tasks in images.values() for pictures in tasks.values())
    if whole > shown:
        most = f"at most {PICTURES} of at most {format_size(LARGEST)} are, of tasks that are evenly chosen"
        yield Text(f"{shown} of {whole:,} images are shown: {most}.", "note")


def _image(home: Path, place: str, most: int) -> bytes | None:
    """Return an image; None if it is gone, too large, not what its name says, or a link out of its run."""
    try:
        path = (home / place).resolve()
        if not path.is_relative_to(home.resolve()):
            return None
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except (OSError, RuntimeError):  # the latter for links that lead in a circle
        return None
    if len(data) > most:
        return None
    whole = data.startswith(b"\x89PNG") if place.lower().endswith(".png") else _is_drawn(data)
    return data if whole else None


def _is_drawn(data: bytes) -> bool:
    """Return whether a browser can draw this SVG: a part of one shows as a broken image without a word."""
    names: list[str] = []
    reader = ParserCreate()
    reader.StartElementHandler = lambda name, _: names.append(name)
    try:
        reader.Parse(data, True)
    except ExpatError:
        return False
    return names[0].rpartition(":")[2] == "svg"
