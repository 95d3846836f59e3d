"""`diel view` in a terminal: the runs of a project, and one with its stages, tasks, charts and failures."""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import DataTable, Footer, OptionList, Select, Static, TabbedContent, TabPane
from textual.widgets.option_list import Option

from diel.base.errors import counted
from diel.base.paths import RunPaths
from diel.base.states import RunState, TaskState
from diel.base.values import clock, format_duration
from diel.observe.status.run import Status
from diel.observe.status.sections import SECTIONS, View, block_lines
from diel.observe.status.stage import StageStatus, failure_lines, group_failures, more_text, task_of
from diel.store.project.runs import all_runs
from diel.store.project.submission import newest_submission
from diel.ui.page.document import panel_text
from diel.ui.page.head import left_text
from diel.ui.page.panels import ENTRIES, panel_of
from diel.ui.view import charts
from diel.ui.view.run_watch import RunWatch
from diel.ui.view.screens import LiveScreen, RunCommandScreen, TaskList, TaskScreen

MOST_NEW = 50
"""Runs that one look reads anew: a project of thousands is shown while it is read."""
_COLUMNS = ("run", "state", "done", "failed", "began", "took")


class RunsScreen(LiveScreen):
    """The runs of a project, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,escape", "app.quit", "quit")]

    def __init__(self, runs: Path, interval: float) -> None:
        super().__init__(interval)
        self._runs = runs
        self._watched: dict[str, RunWatch] = {}
        """Runs that go on."""
        self._rows: dict[str, tuple[RunPaths, Status | None, str]] = {}
        self._order: list[str] = []
        self._drawn: list[object] = []

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield DataTable[Text](cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(DataTable).add_columns(*_COLUMNS)
        super().on_mount()

    def look(self) -> None:
        runs = {paths.run_id: paths for paths in reversed(all_runs(self._runs))}
        self._order = list(runs)
        new = [name for name in runs if name not in self._rows][:MOST_NEW]
        for name in [*new, *(name for name in self._watched if name in runs)]:
            watched = self._watched.setdefault(name, RunWatch(runs[name]))
            status = watched.look()
            self._rows[name] = (runs[name], status, watched.flaws[-1] if watched.flaws else "")
            if status is not None and not status.state.live:
                watched.reader = None  # it may be resumed, and is read anew then
        self._rows = {name: row for name, row in self._rows.items() if name in runs}
        going = {name: w for name, w in self._watched.items() if w.status is None or w.status.state.live}
        self._watched = {name: watched for name, watched in going.items() if name in runs}

    def draw(self) -> None:
        rows = [_row(*self._rows[name]) for name in self._order if name in self._rows]
        unread = len(self._order) - len(rows)
        title = f"{len(self._order):,} runs in {self._runs}" + (f" ({unread:,} to read)" if unread else "")
        self.query_one("#title", Static).update(title if self._order else f"no runs in {self._runs}")
        if rows == self._drawn:
            return
        self._drawn = [*rows]
        table = self.query_one(DataTable)
        place = table.cursor_row
        table.clear()
        for name, row in zip((name for name in self._order if name in self._rows), rows, strict=True):
            table.add_row(*row, key=name)
        table.move_cursor(row=place)

    @on(DataTable.RowSelected)
    def _open(self, event: DataTable.RowSelected) -> None:
        paths = self._rows[event.row_key.value or ""][0]
        self.app.push_screen(RunScreen(paths, self._interval))


def _row(paths: RunPaths, status: Status | None, flaw: str) -> list[Text]:
    if status is None:
        return [Text(paths.run_id), Text("✗ unreadable"), Text(""), Text(""), Text(""), Text(flaw)]
    failed = status.count(TaskState.FAILED)
    return [
        Text(status.run),
        charts.state_text(status.state.value),
        Text(f"{status.good:,}/{status.total_text}", justify="right"),
        charts.state_text("failed", failed) if failed else Text(""),
        Text("" if status.began is None else clock(status.began)[:-3]),
        Text(format_duration(status.elapsed), justify="right"),
    ]


class ViewApp(App[None]):
    """The runs of a project, and at first one of them."""

    CSS_PATH = "view.tcss"
    TITLE = "diel"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, runs: Path, paths: RunPaths, interval: float) -> None:
        super().__init__()
        self.ansi_theme_dark = self.ansi_theme_light = charts.ANSI
        self._screens = (RunsScreen(runs, interval), RunScreen(paths, interval))

    def on_mount(self) -> None:
        # Else the terminal stays as a view needs it; SIGHUP says that there is none any more.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)
        for screen in self._screens:
            self.push_screen(screen)


CHART = 12
TABS = ("stages", "tasks", "charts", "blocks", "failures", "page")
STAGES = "stages"
"""The panel of the page that is shown at first: what stages use of what they have, and advice."""
MOST_KINDS = 200


class RunScreen(RunCommandScreen):
    """A run, as its files show it now."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"tab('{name}-tab')", name, show=False) for n, name in enumerate(TABS, 1)),
        Binding("e", "explain", "explain"),
        Binding("c", "cancel", "cancel"),
        Binding("r", "resume", "resume"),
        Binding("escape", "app.pop_screen", "runs"),
        Binding("q", "app.quit", "quit"),
    ]

    def __init__(self, paths: RunPaths, interval: float) -> None:
        super().__init__(RunWatch(paths), interval)
        self._tab = "stages-tab"
        self._entry = STAGES
        self._time_left: str | None = None
        self._charts: list[charts.Chart] = []
        self._panel = ""
        self._drawn: dict[str, object] = {}
        """What each part shows, so that only what changed is drawn again."""

    def compose(self) -> ComposeResult:
        yield Static(f"reading {self.watched.paths.run_id} …", id="head", markup=False)
        with TabbedContent():
            with TabPane("1 Stages", id="stages-tab"), VerticalScroll():
                yield DataTable[Text](id="stages", cursor_type="row", zebra_stripes=False)
                yield Static(id="sections", markup=False)
            with TabPane("2 Tasks", id="tasks-tab"):
                with Horizontal(id="chosen"):
                    yield Select[str]([], prompt="stage", id="stage", compact=True)
                    yield Select[str]([], prompt="all states", id="state", compact=True)
                    yield Static(id="counted", markup=False)
                yield TaskList(self._task_row)
            with TabPane("3 Charts", id="charts-tab"):
                yield VerticalScroll(id="charts")
            with TabPane("4 Blocks", id="blocks-tab"), VerticalScroll():
                yield Static(id="blocks-text", markup=False)
            with TabPane("5 Failures", id="failures-tab"):
                yield OptionList(id="failures", markup=False)
            with TabPane("6 Page", id="page-tab"):
                panels = [(entry.title, entry.name) for entry in ENTRIES]
                yield Select[str](panels, value=STAGES, allow_blank=False, id="panel", compact=True)
                with VerticalScroll(id="page"):
                    yield Static(id="panel-text", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#stages").focus()
        super().on_mount()

    def look(self) -> None:
        self.watched.look()
        if not self._drawn:  # the first picture does not wait for more
            return
        self.watched.follow_timeline()
        view = self.watched.page_view()
        if view is None:
            return
        self._time_left = left_text(view)
        if self._tab == "charts-tab":
            self._charts = [*charts.axis_charts(view.status.axes), *charts.cores_charts(view)]
        elif self._tab == "page-tab":
            entry = next(candidate for candidate in ENTRIES if candidate.name == self._entry)
            panel = panel_of(entry, view)
            width = max(self.size.width - 4, 20)
            self._panel = "The run has nothing for this." if panel is None else panel_text(panel, width)

    def draw(self) -> None:
        status = self.watched.status
        self.query_one("#head", Static).update(charts.head(status, self.watched.flaws, self._time_left))
        if status is None:
            return
        if self._drawn.get("state") != status.state:
            self._drawn["state"] = status.state
            self.refresh_bindings()
        self._draw_stages(status)
        width = max(self.size.width - 4, 20)
        lines = [line for s in SECTIONS if s.used(status) for line in ("", *s.lines(status, View(width)))]
        lines += [f"{stage.name}: no tasks, {stage.void}" for stage in status.stages if stage.void]
        self._update("#sections", Text.from_ansi("\n".join(lines[1:])))
        blocks = block_lines(status, width, show_all=True) or ["It runs on this machine, without blocks."]
        blocks += charts.running_lines(self.watched, width)
        self._update("#blocks-text", Text.from_ansi("\n".join(blocks)))
        self._draw_tasks(status)
        self._draw_failures(status)
        self._draw_charts()
        self._update("#panel-text", Text(self._panel or "reading …"))

    def _update(self, where: str, text: Text) -> None:
        if self._drawn.get(where) != text:
            self._drawn[where] = text
            self.query_one(where, Static).update(text)

    def _draw_stages(self, status: Status) -> None:
        table = self.query_one("#stages", DataTable)
        width = max(8, min(30, self.size.width - 70))
        if not table.columns:  # with the first rows: a heading stays as wide as it was drawn
            for label in charts.STAGE_COLUMNS:
                table.add_column(label, key=label or "bar")
        for stage in status.stages:
            times = None if self.watched.timeline is None else self.watched.timeline.stages.get(stage.name)
            cells = charts.stage_cells(stage, None if times is None else times.quantile(0.95), width)
            if stage.name not in table.rows:
                table.add_row(*cells, key=stage.name)
            elif self._drawn.get(f"stage {stage.name}") != cells:
                for label, cell in zip(charts.STAGE_COLUMNS, cells, strict=True):
                    table.update_cell(stage.name, label or "bar", cell, update_width=True)
            self._drawn[f"stage {stage.name}"] = cells

    def _draw_tasks(self, status: Status) -> None:
        stages = [stage.name for stage in status.stages]
        if self._drawn.get("stages") != stages:
            self._drawn["stages"] = stages
            chosen = self.query_one("#stage", Select)
            before = chosen.value
            chosen.set_options((name, name) for name in stages)
            chosen.value = before if before in stages else (stages[0] if stages else Select.NULL)
            self.query_one("#state", Select).set_options((state.label, state.label) for state in TaskState)
        stage = self._stage()
        if stage is None:
            return
        states = self.watched.states(stage.name)
        choice = self.query_one("#state", Select).value
        if self._drawn.get("tasks") != (stage.name, choice, states):
            self._drawn["tasks"] = (stage.name, choice, states)
            tasks: Sequence[int] = range(len(states))
            if isinstance(choice, str):
                number = TaskState[choice.upper()]
                tasks = [index for index, state in enumerate(states) if state == number]
            self.query_one(TaskList).show(tasks)
            self._update("#counted", Text(counted(len(tasks), "task")))
        self.query_one(TaskList).refresh()

    def _stage(self) -> StageStatus | None:
        name, status = self.query_one("#stage", Select).value, self.watched.status
        return next((stage for stage in (status.stages if status else ()) if stage.name == name), None)

    def _task_row(self, index: int) -> Text:
        stage = self._stage()
        return Text() if stage is None else charts.task_row(self.watched, stage.name, index)

    @on(DataTable.RowSelected, "#stages")
    def _open_stage(self, event: DataTable.RowSelected) -> None:
        self.query_one("#stage", Select).value = event.row_key.value
        self.action_tab("tasks-tab")

    @on(Select.Changed, "#chosen Select")
    def _choose_tasks(self) -> None:
        if self.watched.status is not None:
            self._draw_tasks(self.watched.status)

    @on(TaskList.Chosen)
    def _open_task(self, event: TaskList.Chosen) -> None:
        stage = self._stage()
        if stage is not None:
            self.app.push_screen(TaskScreen(self.watched, stage.name, event.index, self._interval))

    @on(TabbedContent.TabActivated)
    def _enter_tab(self, event: TabbedContent.TabActivated) -> None:
        self._tab = event.pane.id or ""
        self.look_again()

    @on(Select.Changed, "#panel")
    def _choose_panel(self, event: Select.Changed) -> None:
        self._entry, self._panel = str(event.value), ""
        self.look_again()

    def _draw_charts(self) -> None:
        width = max(self.size.width - 6, 30)
        key = (self._charts, width)
        if self._tab != "charts-tab" or self._drawn.get("charts") == key:
            return
        self._drawn["charts"] = key
        drawn = [charts.draw(chart, width, CHART) for chart in self._charts]
        around = self.query_one("#charts", VerticalScroll)
        self.show_below(around, drawn or [Text("There is nothing to draw yet.")], "chart")

    def _draw_failures(self, status: Status) -> None:
        groups = group_failures(status.failures)
        if self._drawn.get("failures") == groups:
            return
        self._drawn["failures"] = groups
        listed = self.query_one("#failures", OptionList)
        place = listed.highlighted
        listed.clear_options()
        for alike in groups[:MOST_KINDS]:
            first, *rest = failure_lines(alike[0])
            more = [f"    {text}"] if (text := more_text(alike)) else []
            shown = Text.from_ansi("\n".join([f"✗ {first}", *rest, *more]))
            listed.add_option(Option(shown, id=task_of(alike[0])))
        if not groups:
            listed.add_option(Option(Text("Nothing has failed."), disabled=True))
        listed.highlighted = place if place is not None and place < listed.option_count else None

    @on(OptionList.OptionSelected, "#failures")
    def _open_failure(self, event: OptionList.OptionSelected) -> None:
        stage, _, index = (event.option.id or "").partition("/")
        self.app.push_screen(TaskScreen(self.watched, stage, int(index), self._interval))

    def action_tab(self, name: str) -> None:
        self.query_one(TabbedContent).active = name
        targets = {
            "stages-tab": "#stages",
            "tasks-tab": "TaskList",
            "failures-tab": "#failures",
            "charts-tab": "#charts",
            "page-tab": "#page",
        }
        if name in targets:
            self.query_one(targets[name]).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether the run can do an action: no other is offered."""
        status = self.watched.status
        if action == "cancel":
            return status is not None and not status.state.ended
        if action == "resume":
            return status is not None and not status.state.live and status.state is not RunState.SUCCEEDED
        return super().check_action(action, parameters)

    def action_explain(self) -> None:
        words: list[str] = []
        if self.query_one(TabbedContent).active == "tasks-tab" and (stage := self._stage()) is not None:
            index = self.query_one(TaskList).index
            words.append(stage.name if index is None else f"{stage.name}/{index}")
        self.start("explain", *words)

    def action_cancel(self) -> None:
        question = f"Cancel {self.watched.paths.run_id}? Tasks that have a result keep it."
        self.ask(question, "cancel", "--no-wait")

    def action_resume(self) -> None:
        question = f"Resume {self.watched.paths.run_id}? Its controller will go on without this view."
        # As it was submitted, or with a controller that outlives the view.
        home = () if newest_submission(self.watched.paths) is not None else ("--home", "login")
        self.ask(question, "resume", *home)
