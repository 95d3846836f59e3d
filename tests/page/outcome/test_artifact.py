"""The panel of artifacts: files by path, and the images that are small enough."""

from __future__ import annotations

from pathlib import Path

from diel.page.outcome.result import LARGEST, artifacts
from diel.page.panel import Grid, Picture, Text
from diel.page.run_view import RunView
from tests.handmade import Handmade

FLOW = "axes: {i: {range: 5}}\nstages: {draw: {over: [i], command: [x], outputs: {figure: {path: a}}}}"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(50)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def drawn(folder: Path, *files: tuple[str, bytes]) -> Handmade:
    run = Handmade(folder, FLOW).stage("draw", 5)
    for index, (name, content) in enumerate(files):
        made(run, "draw", index, figure=(name, content))
    return run


def made(run: Handmade, stage: str, index: int, **files: tuple[str, bytes]) -> None:
    entries = {}
    for output, (name, content) in files.items():
        path = run.paths.task_dir(stage, index, 1) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        place = f"tasks/{stage}/{index}/{name}"
        entries[output] = {"path": place, "size": len(content), "digest": f"d{index}"}
    run.work("done", stage, index, seconds=1.0, key="k", artifacts=entries)


def test_files_are_listed_by_path_and_images_are_shown(tmp_path: Path) -> None:
    table, *pictures = artifacts(
        RunView(drawn(tmp_path, ("a.svg", SVG), ("b.png", PNG), ("c.txt", b"x")).paths)
    )
    assert isinstance(table, Grid)
    assert list(table.rows[2]) == ["tasks/draw/2/c.txt", "figure", "draw/2", "1 B", "d2", ""]
    assert pictures == [
        Picture("draw/0 (i=0): figure", "figure of draw/0 (i=0): figure", "image/svg+xml", SVG),
        Picture("draw/1 (i=1): figure", "figure of draw/1 (i=1): figure", "image/png", PNG),
    ]


def test_a_link_out_of_the_run_is_not_followed(tmp_path: Path) -> None:
    run = drawn(tmp_path, ("a.svg", SVG), ("b.svg", SVG), ("c.svg", SVG))
    (tmp_path / "secret.svg").write_bytes(SVG)
    for index, target in ((0, tmp_path / "secret.svg"), (1, "b.svg")):  # the second leads to itself
        link = run.paths.task_dir("draw", index, 1) / f"{'ab'[index]}.svg"
        link.unlink()
        link.symlink_to(target)
    assert [part.caption for part in artifacts(RunView(run.paths)) if isinstance(part, Picture)] == [
        "draw/2 (i=2): figure"
    ]


def test_of_many_tasks_all_images_of_some_are_shown(tmp_path: Path) -> None:
    text = """
axes: {i: {range: 90}}
stages:
  draw: {over: [i], command: [x], outputs: {left: {path: l.svg}, right: {path: r.svg}}}
  sum: {command: [x], after: [draw], outputs: {whole: {path: w.svg}}}
"""
    run = Handmade(tmp_path, text).stage("draw", 90).stage("sum", 1)
    for index in range(90):
        made(run, "draw", index, left=("l.svg", SVG), right=("r.svg", SVG))
    made(run, "sum", 0, whole=("w.svg", SVG))
    captions = [part.caption for part in artifacts(RunView(run.paths)) if isinstance(part, Picture)]
    assert captions.count("sum/0: whole") == 1
    assert len(captions) == 13
    shown = {caption.partition(":")[0] for caption in captions[:-1]}
    assert sorted(captions[:-1]) == sorted(f"{task}: {name}" for task in shown for name in ("left", "right"))


def test_an_svg_that_is_not_whole_is_not_shown(tmp_path: Path) -> None:
    files = ("a.svg", SVG), ("b.svg", SVG[:-3]), ("c.svg", b"<html/>")
    found = [part for part in artifacts(RunView(drawn(tmp_path, *files).paths)) if not isinstance(part, Grid)]
    assert [type(part) for part in found] == [Picture, Text]


def test_what_is_too_large_gone_or_no_image_is_counted(tmp_path: Path) -> None:
    files = ("a.svg", SVG), ("b.png", PNG + bytes(LARGEST)), ("c.png", b"text"), ("d.svg", SVG)
    run = drawn(tmp_path, *files)
    (run.paths.task_dir("draw", 3, 1) / "d.svg").unlink()
    found = list(artifacts(RunView(run.paths)))
    assert sum(isinstance(part, Picture) for part in found) == 1
    assert isinstance(found[-1], Text)
    assert found[-1].text.startswith("1 of 4 images are shown: ")
