"""A view on a terminal that textual pretends: what stands on it, and the keys that a user presses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.pilot import Pilot

from diel.base.paths import RunPaths
from diel.ui.view.app import ViewApp

Looker = Callable[["RunView"], Awaitable[None]]


class RunView:
    """A view, and the user before it."""

    def __init__(self, app: ViewApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def lines(self) -> list[str]:
        """What stands on the screen. (A picture of it, which textual gives without an underscore, takes 50 ms.)"""
        return [strip.text.rstrip() for strip in self.app.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(self, *words: str, cut: str = "\0", seconds: float = 30) -> None:
        """Waits until all these words stand on the screen, and none that a column `cut` before it was widened."""
        end = time.monotonic() + seconds
        while (lacking := [word for word in words if word not in self.text]) or cut in self.text:
            assert time.monotonic() < end, f"{lacking or cut} did not come or go:\n{self.text}"
            await self.pilot.pause(0.05)


def view(
    runs: Path, run: RunPaths, look: Looker, size: tuple[int, int] = (80, 24), notifications: bool = False
) -> None:
    """Opens a view of a run, lets somebody look at it, and closes it."""

    async def opened() -> None:
        app = ViewApp(runs, run, 0.1)
        async with app.run_test(size=size, notifications=notifications) as pilot:
            await look(RunView(app, pilot))

    asyncio.run(opened())
