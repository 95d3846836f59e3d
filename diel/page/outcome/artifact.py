"""The panel of artifacts: files that tasks made, by path, and the images among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from xml.parsers.expat import ExpatError, ParserCreate

from diel.artifacts import files_of
from diel.page.panel import Cell, Grid, Part, Picture, Text
from diel.page.plot import thinned
from diel.page.run_view import RunView
from diel.results import DROPPED
from diel.tasks.results import artifact_home
from diel.values import format_size

if TYPE_CHECKING:
    pass

FILES = 200
PICTURES = 24
LARGEST = 150_000
"""Bytes of an image that is shown; larger ones are named."""
TOGETHER = 450_000
"""Bytes of all images of a page."""
_Image = tuple[str, str, Path, str]
"""Its task, its output, where the paths of its run begin, and its path."""
_MEDIA = {".png": "image/png", ".svg": "image/svg+xml"}


def parts(view: RunView) -> Iterator[Part]:
    run = view.run
    rows: list[list[Cell]] = []
    images: dict[str, dict[int, list[_Image]]] = {}
    whole = 0
    for stage, (records, rule) in view.records.items():
        if rule and any(drawn.get("artifacts") for drawn in records.values()):
            yield Text(f"{stage}: {rule.replace('drawn', 'listed')}.", "note")
        for index in sorted(records):
            record, task = records[index], f"{stage}/{index}"
            artifacts = record.get("artifacts", {}).items()
            for name, file in ((name, file) for name, entry in artifacts for file in files_of(entry)):
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
