"""A list of a million tasks makes the rows that are seen."""

from __future__ import annotations

import asyncio

from rich.text import Text
from textual.app import App, ComposeResult

from diel.view.screens import TaskList


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
