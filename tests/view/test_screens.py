"""A list of a million tasks makes the rows that are seen."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text
from textual.app import App, ComposeResult

from diel.base.states import RunState, TaskState
from diel.ui.view.charts import MARKS
from diel.ui.view.screens import TaskList
from tests.handmade import WORKER, Handmade
from tests.view.screen import RunView, view


def test_of_a_million_tasks_only_the_rows_on_the_screen_are_made() -> None:
    made: list[int] = []

    def describe(index: int) -> Text:
        made.append(index)
        return Text(f"task {index}")

    class Listing(App[None]):
        def compose(self) -> ComposeResult:
            yield TaskList(describe)

    async def look() -> None:
        async with Listing().run_test(size=(80, 24)) as pilot:
            tasks = pilot.app.query_one(TaskList)
            tasks.show(range(1_000_000))
            tasks.focus()
            await pilot.press("end", "up")
            await pilot.pause()
            assert tasks.index == 999_998
            tasks.show([5, 999_998])
            assert tasks.index == 999_998, "the cursor stays on its task"
            tasks.show([5])
            assert tasks.index == 5

    asyncio.run(look())
    assert 999_998 in made
    assert len(made) < 500


STAGES = """
axes: {depth: {values: [1.5, 2.5, 3.5]}}
stages:
  simulate: {over: [depth], command: ["true"]}
  train: {command: ["true"]}
"""


@pytest.fixture
def run(tmp_path: Path) -> Handmade:
    """One task done, one failed, one running."""
    made = Handmade(tmp_path, STAGES, alive=True).stage("simulate", 3).stage("train", 1)
    made.done("simulate", 0).failed("simulate", 1, message="exit code 3")
    made.write("queued", stage="simulate", tasks=[2], bundle=3)
    return made.work("start", "simulate", 2, bundle=3)


def looked_at(run: Handmade, look: object, **more: object) -> None:
    view(run.folder / "runs", run.paths, look, **more)  # type: ignore[arg-type]


def test_stages_and_states_stand_on_80_columns_with_marks(run: Handmade) -> None:
    async def look(seen: RunView) -> None:
        await seen.until("w-1 ▶ running · 1 of 4 tasks · ▶ 1 running · ✗ 1 failed", "controller: process")
        await seen.until(" stage ", " simulate ", "2.0s", cut=" 2.0 ")
        row = next(line for line in seen.lines if line.startswith(" simulate"))
        cells = [cell for cell in row.split("  ") if cell]
        shown = [cell.strip() for cell in cells]
        assert shown[:5] == ["simulate", "███▶▶▶✗✗✗✗", "1/3", "▶ 1", "✗ 1"]
        assert set(shown[5:]) == {"2.0s"}  # the mean, and p95 where it is known
        assert max(map(len, seen.lines)) <= 80
        heading = next(line for line in seen.lines if line.startswith(" stage "))
        assert heading.index("failed") == row.index("✗ 1")

    looked_at(run, look)


def test_the_head_says_how_many_failures_are_tolerated(run: Handmade) -> None:
    run.failed("train", 0).write("tolerated", stage="simulate", tasks=[[1, 1]], cause="`min_success`")

    async def look(seen: RunView) -> None:
        await seen.until("· ✗ 2 failed, 1 of them tolerated ·")

    looked_at(run, look)


def test_what_is_appended_is_seen(run: Handmade) -> None:
    async def look(seen: RunView) -> None:
        await seen.until("1 of 4 tasks")
        run.work("done", "simulate", 2, seconds=1.0, key="2" * 32, parts=["p", "i"], values={}, artifacts={})
        await seen.until("2 of 4 tasks")
        run.done("train", 0).end("failed")
        await seen.until("3 of 4 tasks", "✗ failed", "it has ended")

    looked_at(run, look)


def test_tasks_are_listed_with_their_points_chosen_by_state_and_opened_by_two_clicks(run: Handmade) -> None:
    async def look(seen: RunView) -> None:
        await seen.until("1 of 4 tasks")
        await seen.press("enter")
        await seen.until("1  ✗ failed", "depth=2.5", "2  ▶ running", "3 tasks")
        seen.app.screen.query_one("#state").value = "failed"  # type: ignore[attr-defined]
        await seen.until(" 1 task\n")
        assert "depth=1.5" not in seen.text
        assert "depth=2.5" in seen.text
        await seen.pilot.click("TaskList", offset=(10, 0), times=2)
        await seen.until("simulate/1 ✗ failed", "exit code 3", "what it prints")

    looked_at(run, look)


def test_output_is_followed_and_cannot_move_the_cursor_and_metrics_are_drawn(run: Handmade) -> None:
    capture = run.paths.captures / WORKER.replace(".jsonl", ".stdout")
    capture.write_text("step 1\nstep")
    folder = run.paths.task_dir("simulate", 2, 1)
    folder.mkdir(parents=True)
    rows = [json.dumps({"time": 1.0, "epoch": n, "loss": 1 / (n + 1), "note": "text"}) for n in range(20)]
    (folder / ".metrics.jsonl").write_text("\n".join([*rows, "no JSON", ""]))

    async def look(seen: RunView) -> None:
        await seen.until("1 of 4 tasks")
        await seen.press("2")
        await seen.until("depth=3.5")
        await seen.press("end", "enter")
        await seen.until("simulate/2 ▶ running", "depth=3.5", "step 1", "loss", "epoch", "1.00")
        with open(capture, "a") as file:
            file.write(" 2\n10 %\r90 %\n\033[2J\033]0;title\a\033[31mred\n")
        await seen.until("step 2", "90 %", "red")
        assert [word for word in ("10 %", "title", "�") if word in seen.text] == []

    looked_at(run, look)


def test_failures_are_grouped_and_lead_to_their_task(run: Handmade) -> None:
    run.failed("train", 0, message="out of memory", **{"class": "oom"})

    async def look(seen: RunView) -> None:
        await seen.until("✗ 2 failed")
        await seen.press("5")
        await seen.until("simulate/1  app: exit code 3", "boom", "train/0  oom: out of memory")
        await seen.press("down", "down", "enter")
        await seen.until("train/0 ✗ failed")

    looked_at(run, look)


def test_a_run_whose_controller_is_gone_says_so(tmp_path: Path) -> None:
    run = Handmade(tmp_path, STAGES).stage("simulate", 3).done("simulate", 0)
    run.write("queued", stage="simulate", tasks=[2], bundle=3).work("start", "simulate", 2, bundle=3)

    async def look(seen: RunView) -> None:
        await seen.until("‖ interrupted", "its controller is gone", "r continues it")
        assert "running" not in "\n".join(seen.lines[:2]), "what it had handed out does not run"

    looked_at(run, look)


def test_a_torn_line_waits_and_a_damaged_record_is_told(run: Handmade) -> None:
    segment = run.paths.journal / WORKER
    with open(segment, "a") as file:
        file.write('{"event":"done","stage":"simulate","index":"two","attempt":1,"time":1.0}\n')
        file.write('{"event":"done","stage":"train","index":0,"attempt":1,"time":9e9,"seconds":1.0,"key":"k"')

    async def look(seen: RunView) -> None:
        await seen.until("1 of 4 tasks", "not one that this diel can read")
        with open(segment, "a") as file:
            file.write(',"values":{},"artifacts":{}}\n')
        await seen.until("2 of 4 tasks", "not one that this diel can read")

    looked_at(run, look)


def test_a_run_that_is_removed_while_one_looks_keeps_its_last_picture(run: Handmade) -> None:
    async def look(seen: RunView) -> None:
        await seen.until("1 of 4 tasks")
        run.paths.run_file.unlink()
        await seen.until("the run was removed", "1 of 4 tasks")

    looked_at(run, look)


def test_looking_writes_nothing(run: Handmade) -> None:
    def files() -> list[tuple[str, float]]:
        found = [os.path.join(folder, name) for folder, _, names in os.walk(run.folder) for name in names]
        return sorted((path, os.stat(path).st_mtime) for path in found)

    before = files()

    async def look(seen: RunView) -> None:
        await seen.until("1 of 4 tasks")
        for key in "2345":
            await seen.press(key)
        await seen.press("2", "enter", "escape", "escape")
        await seen.until("1 runs in")
        await seen.press("q")
        assert seen.app._exit

    looked_at(run, look)
    assert files() == before


def test_cancel_is_asked_first(run: Handmade) -> None:
    async def look(seen: RunView) -> None:
        await seen.until("1 of 4 tasks")
        await seen.press("c")
        await seen.until("Cancel w-1?", "diel cancel w-1 --no-wait")
        await seen.press("n", "c", "enter")  # the first button is No
        assert not any(run.paths.requests.iterdir())
        await seen.press("c", "y")
        await seen.until("asked w-1 to cancel")

    looked_at(run, look)
    assert [path.name.partition("-")[0] for path in run.paths.requests.iterdir()] == ["cancel"]


def test_only_what_a_run_can_do_is_offered(run: Handmade) -> None:
    async def look(seen: RunView) -> None:
        await seen.until("1 of 4 tasks", "c cancel")
        assert "r resume" not in seen.lines[-1]
        run.end("failed")
        await seen.until("it has ended", "r resume")
        assert "c cancel" not in seen.lines[-1]

    looked_at(run, look)


def test_explain_tells_of_the_task_under_the_cursor(run: Handmade) -> None:
    async def look(seen: RunView) -> None:
        await seen.until("1 of 4 tasks")
        await seen.press("2")
        await seen.until("depth=3.5")
        await seen.press("down", "e")
        await seen.until("diel explain w-1 simulate/1", "exit code 3")
        await seen.press("escape")
        await seen.until("3 tasks")

    looked_at(run, look)


def test_every_state_has_a_mark_of_its_own() -> None:
    for states in ([state.label for state in TaskState], [state.value for state in RunState]):
        assert len({MARKS[state][0] for state in states}) == len(states)


def test_what_stages_and_a_task_used_advice_and_cores_held_stand_in_80_columns(tmp_path: Path) -> None:
    stages = 'stages: {simulate: {command: ["true"], resources: {memory: 2GiB}}, wait: {command: ["true"]}}'
    run = Handmade(tmp_path, stages, alive=True).stage("simulate", 3).stage("wait", 1)
    run.paths.site.write_text('{"name": "s", "scheduler": "local", "pools": {"local": {"cores": 4}}}')
    usage = {"cpu_seconds": 1.0, "system_seconds": 0.1, "memory_bytes": 310 << 20}
    made: dict[str, Any] = {
        "seconds": 2.0,
        "parts": ["p", "i"],
        "values": {},
        "artifacts": {},
        "usage": usage,
    }
    for index in range(2):
        run.work("start", "simulate", index).work("done", "simulate", index, key=f"{index:032x}", **made)
    run.work("start", "simulate", 2)

    async def look(seen: RunView) -> None:
        await seen.until("Time left: ", "with 1 task at a time")
        await seen.press("6")
        await seen.until(
            "cores in use 0.5 of 1 (50%)", "most memory 310.0 MiB of", "memory: 576.0 MiB, not 2.0"
        )
        assert max(map(len, seen.lines)) <= 80
        await seen.press("shift+tab", "enter", *["down"] * 3, "enter")
        await seen.until("of what was held", "held: this machine")
        await seen.press("3")
        await seen.until("cores that tasks had, and that the run held")
        await seen.press("2")
        await seen.until("3 tasks")
        await seen.press("enter")
        await seen.until("simulate/0 ✓ done", "in 2.0s: used 1.0 s of processors; 310.0 MiB")

    looked_at(run, look)


def test_a_mistake_while_it_looks_is_told_and_the_last_picture_stays(
    run: Handmade, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look(seen: RunView) -> None:
        await seen.until("1 of 4 tasks")
        monkeypatch.setattr("diel.ui.view.run_watch.RunWatch.look", lambda watched: os.environ["GONE"])
        await seen.until("diel failed in a way", "KeyError: 'GONE'", "1 of 4 tasks")

    looked_at(run, look, notifications=True)
