"""The Python interface: run a workflow from a script or a notebook, and read what it made.

run = diel.run("melt.yaml", set={"hidden": 32})
run = diel.submit("melt.yaml", site="slurm")      # goes on without this process
run.state                            # 'succeeded'
run.table("screen.best")             # a pandas DataFrame, where pandas is installed
run.metrics("train")                 # what its tasks reported, step by step
run.usage("train")                   # what its attempts used: cpu_seconds, memory_bytes, …
run.trials()                         # the trials of its search, pruned and failed ones too
run.artifact("train.model")          # a pathlib.Path
"""

import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from diel.backends.blocks.script import NeverRuns
from diel.base.errors import UsageError, counted, did_you_mean
from diel.base.formats.objects import make_frame
from diel.base.paths import RunPaths, runs_dir
from diel.base.states import TaskState
from diel.controller.home import submit_new
from diel.controller.start import discard, drive_on, start
from diel.export.network import draw_run, stage_facts, stage_network, task_network
from diel.observe.results import (
    RunReader,
    list_metrics,
    list_trials,
    list_usage,
    make_table,
    picked_tasks,
    read,
)
from diel.observe.status.run import read_status
from diel.planning.plan import prepare
from diel.site.find import detect
from diel.store.artifacts import Artifact
from diel.store.journal.records import Made
from diel.store.journal.snapshot import look_at
from diel.store.project.runs import find_run
from diel.store.project.submission import Home
from diel.store.table import Listing
from diel.store.timeline import ROW, Timeline
from diel.tasks.results import output_of, outputs_of
from diel.ui.notebook import shown, watcher

if TYPE_CHECKING:
    from networkx import DiGraph

Settings = Mapping[str, Any] | Sequence[str]
"""Hyperparameters by name, or settings as on the command line: `["hp.hidden=32"]`."""


def run(
    path: str | Path,
    set: Settings = (),
    params: str | Path | Sequence[str | Path] = (),
    runs: str | Path | None = None,
    site: str | None = None,
    quiet: bool | None = None,
    cache: bool = True,
) -> "Run":
    """Run a workflow in this process until it is over, as `diel run` does, and return the run.

    `set` gives hyperparameters, `params` names files of them, `runs` the directory for the run,
    `cache=False` uses no earlier result. A notebook shows how far it is, unless `quiet=True`;
    `quiet=False` prints a line when it begins and ends.

    A task that fails raises nothing: look at `.state` and `.status()["failures"]`. Raise SpecError
    for a workflow that is wrong and UsageError for settings that do not fit, before anything runs.
    KeyboardInterrupt leaves the run interrupted; `diel resume` goes on with it.
    """
    place = runs_dir(_path(runs))
    fresh = not place.exists()
    plan = prepare(Path(path), _settings(set), _files(params), site, place)
    controller = start(plan, place, use_cache=cache)
    look = watcher(controller.paths.run_id) if quiet is None else None
    if quiet is False:
        print(f"{controller.paths.run_id}: {controller.paths.root}")  # noqa: T201 - asked for
    try:
        state = drive_on(controller, lambda running: running.drive(look or (lambda history: None)))
    except NeverRuns:
        discard(controller.paths, fresh=fresh)
        raise
    if look is not None:
        look(controller.history)
    if quiet is False:
        print(f"{controller.paths.run_id} {state}")  # noqa: T201 - asked for
    return Run(controller.paths)


def submit(
    path: str | Path,
    set: Settings = (),
    params: str | Path | Sequence[str | Path] = (),
    runs: str | Path | None = None,
    site: str | None = None,
    home: Home | None = None,
    cache: bool = True,
) -> "Run":
    """Hand a workflow to a controller of its own, as `diel submit` does, and return the run at once.

    `home` says where that lives (login, job or inside); as the site has it otherwise. `.state` tells how
    the run stands, whoever asks, now or tomorrow.

    Raise SpecError and UsageError for what is wrong before anything is made, SchedulerRefused where the
    scheduler does not take its job; SchedulerBusy where it has not answered: then the run is there, and
    waits for its job, which may be queued all the same.
    """
    place, site = runs_dir(_path(runs)), site or os.environ.get("DIEL_SITE") or detect()
    plan = prepare(Path(path), _settings(set), _files(params), site, place)
    return Run(submit_new(plan, place, home=home, use_cache=cache)[0])


def open_run(name: str | Path = "last", runs: str | Path | None = None) -> "Run":
    """Return the run of this name, of this path, or the newest: `last`, a workflow's. Raise UsageError."""
    return Run(find_run(runs_dir(_path(runs)), str(name)))


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _files(files: str | Path | Sequence[str | Path]) -> list[Path]:
    return [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]


def _settings(settings: Settings) -> tuple[str, ...]:
    """Write settings as the command line does: JSON is YAML, so a value arrives with its type."""
    if isinstance(settings, str):
        return (settings,)
    if not isinstance(settings, Mapping):
        return tuple(settings)
    return tuple(
        f"hp.{name.removeprefix('hp.')}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in settings.items()
    )


class Run:
    """A run: its state and what it made. Each call reads it again, so the run may still be going."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths

    @property
    def id(self) -> str:
        """Its name, `<workflow>-<n>`."""
        return self._paths.run_id

    @property
    def dir(self) -> Path:
        """Its directory, absolute."""
        return self._paths.root

    @property
    def state(self) -> str:
        """pending, running, succeeded, failed, cancelled, or interrupted (its controller is gone)."""
        return str(self._read().state)

    def status(self) -> dict[str, Any]:
        """Return the run's status: what `diel status --json` prints."""
        return read_status(self._paths, look_at(self._paths)).document()

    def table(self, *values: str) -> Any:
        """Return the outputs `STAGE.VALUE`, or all of a STAGE, with one column for each axis parameter.

        Over a search, each trial's hyperparameters have columns too, `hp.NAME`; where results of a stage are
        suspect, `STAGE.suspect` says which.

        A pandas DataFrame where pandas is installed, else a list of dicts. Several stages are joined
        along the axes they share; what one lacks is empty. Files are their paths, as text. A warning says how
        many tasks have no result, and why. Raise UsageError for a name that is not there, and for stages
        without common rows.
        """
        if not values:
            raise UsageError(f"name the outputs, for instance table({_example(self._read())!r})")
        listing = self._listing(lambda run: make_table(run, values))
        for text in listing.missing.values():
            warnings.warn(text, stacklevel=2)
        return _frame(listing)

    def metrics(self, stage: str, at: Mapping[str, Any] | None = None) -> Any:
        """Return what a stage's tasks reported while they ran, failed ones too: a row for each value.

        Columns: `task`, its axis parameters and a trial's `hp.NAME`, `attempt`, `metric`, `step`, `value`,
        and `time` in seconds since the epoch. A DataFrame or a list of dicts, as `table` gives it; `at`
        picks tasks as for `value`. Raise UsageError for a stage or point that is not there.
        """
        return _frame(self._listing(lambda run: list_metrics(run, stage, at=at)))

    def usage(self, *stages: str) -> Any:
        """Return what each attempt of some stages, or of all, used: processor time, memory, bytes moved.
        A pandas DataFrame where pandas is installed, else a list of dicts. What was not measured is empty."""
        return _frame(self._listing(lambda run: list_usage(run, stages)))

    def trials(self, search: str | None = None) -> Any:
        """Return the trials of a search axis, which needs no name if the run has one: a row for each.

        Columns: its number, `state` (running, waiting, complete, pruned, failed), objectives, `hp.NAME`, the
        `last_step` and `last_value` that it reported on its way, when it `began`, its `seconds`, and why it
        has no score (`message`). A DataFrame or a list of dicts. Raise UsageError for no such search.
        """
        return _frame(self._listing(lambda run: list_trials(run, search)))

    def graph(self, of: Literal["stages", "tasks"] = "stages") -> "DiGraph[str]":
        """Return a networkx.DiGraph of its stages, or of its tasks that ended, with states and times.

        Stages have `kind`, `axes`, `state`, how many of their tasks are in each state, `began`, `ended` (in
        seconds since the epoch) and `seconds`, the sum. Tasks are `STAGE/INDEX` and have `stage`, `index`,
        `label`, `state`, and as far as known `began`, `ended`, `seconds`, `host` and `attempt`. An edge leads
        to the reader of its `outputs`.
        """
        run = self._read()
        return task_network(run) if of == "tasks" else stage_network(draw_run(run), stage_facts(run))

    def timeline(self) -> Any:
        """Return when and where attempts ran: a row for each, with begin and end in seconds since the epoch.
        A DataFrame or a list of dicts."""
        timeline = Timeline(self._paths, many=sys.maxsize)
        timeline.catch_up()
        status = read_status(self._paths)
        until = status.now if status.ended is None else status.ended
        return _frame(Listing(ROW, list(timeline.rows(until, live=status.alive)), {}))

    def value(self, name: str, at: Mapping[str, Any] | None = None) -> Any:
        """One value `STAGE.VALUE`: of the only task of a stage, or of the task `at` a point.

        `at={"trial": "best"}` picks the best trial of a search so far, `{"round": "last"}` the last round.

        Raise UsageError where there are several tasks, none, or one without that result.
        """
        values = self._outputs(name, at)
        if len(values) != 1:
            raise UsageError(
                f"'{name}' has {counted(len(values), 'value')}: pick one with at={{...}}, "
                f"or ask for table({name!r})"
            )
        return values[0]

    def artifact(self, name: str, at: Mapping[str, Any] | None = None) -> Any:
        """Return the file of an output `STAGE.VALUE` as a Path; a list, in axis order, for several tasks.

        `at` picks the tasks at some axis parameters; of a search `best`, `pareto` or `{"top": 5}`, of a loop
        `last`. Raise UsageError where there is no such file.
        """
        values = self._outputs(name, at)
        values = [item for value in values for item in (value if isinstance(value, list) else (value,))]
        if any(type(value) is not Artifact for value in values):
            raise UsageError(f"'{name}' is a value, not a file: ask for value({name!r}) or table({name!r})")
        paths = [Path(value) for value in values]
        return paths[0] if len(paths) == 1 else paths

    def _outputs(self, name: str, at: Mapping[str, Any] | None) -> list[Any]:
        read = self._read()
        stage, _, output = name.rpartition(".")
        stages = read.workflow.stages
        if stage not in stages or not output:
            hint = did_you_mean(stage or name, stages) if stage not in stages else ""
            raise UsageError(
                f"expected STAGE.VALUE, found '{name}'; {hint or 'stages: ' + ', '.join(stages)}"
            )
        point = dict(at or {})
        records = read.records(stage)
        picked = picked_tasks(read, stage, records, point)
        dropped = read.history.stage(stage).dropped.get(output, ())
        if picked and all(index in dropped for index in picked):
            reason = "it was deleted after use (`keep: false`, or `diel clean --intermediate`)"
            raise UsageError(f"{self.id} no longer has '{name}': {reason}")
        outputs = [
            output_of(records[index], output, read.paths.root)
            for index in picked
            if output in outputs_of(records[index]) and index not in dropped
        ]
        if not outputs:
            raise UsageError(self._nothing(read, records, name, point if not picked else {}))
        self._warn(
            read, name, len(outputs), picked_tasks(read, stage, range(read.history.stage(stage).total), point)
        )
        return outputs

    def _warn(self, read: RunReader, name: str, count: int, tasks: Sequence[int]) -> None:
        """Warn where failed tasks are missing among values, or a model answered some of them."""
        history = read.history.stage(name.rpartition(".")[0])
        lost = sum(history.state(index) in (TaskState.FAILED, TaskState.CANCELLED) for index in tasks)
        model = history.surrogate
        answers = 0 if model is None else sum(model.answers[index : index + 1] == b"\x01" for index in tasks)
        failed = f"{lost:,} of {counted(len(tasks), 'task')} failed: '{name}' has {count:,}"
        answered = f"a model answered {answers:,} of {counted(count, 'value')} of '{name}'"
        for text in filter(None, (failed if lost else "", answered if answers else "")):
            warnings.warn(text, stacklevel=4)

    def _nothing(self, read: RunReader, records: Mapping[int, Made], name: str, at: Mapping[str, Any]) -> str:
        """Say why there is no such output."""
        stage, _, output = name.rpartition(".")
        if records and at:
            where = ", ".join(f"{parameter} = {value!r}" for parameter, value in at.items())
            points = [read.point(stage, index) for index in list(records)[:3]]
            shown = "; ".join(", ".join(f"{key} = {point[key]!r}" for key in at) for point in points)
            return f"{self.id} has no result of '{stage}' at {where}; it has: {shown}, …"
        outputs = list(dict.fromkeys(entry for record in records.values() for entry in outputs_of(record)))
        hint = did_you_mean(output, outputs) or f"'{stage}' made: {', '.join(outputs) or 'nothing yet'}"
        return f"{self.id} has no '{name}'; {hint}"

    def _listing(self, ask: Callable[[RunReader], Listing]) -> Listing:
        """Return a table, with a warning about what of the run is damaged."""
        answer, flaws = read(self._paths, ask)
        for flaw in flaws:
            warnings.warn(flaw, stacklevel=3)
        return answer

    def _read(self) -> RunReader:
        return RunReader(self._paths)

    def _repr_html_(self) -> str:
        """Show the run in a notebook: the page of `diel report`, or a card where the extra is absent."""
        read = self._read()
        return shown(self._paths, str(read.state), read.history)

    def __repr__(self) -> str:
        read = self._read()
        stages = []
        for name in read.workflow.stages:
            counts = read.history.stage(name).counts()
            stages.append(f"{name} {counts['done'] + counts['cached']:,}/{sum(counts.values()):,}")
        return f"<Run {self.id} {read.state}: {', '.join(stages)}>"


def _frame(listing: Listing) -> Any:
    """Return a DataFrame where pandas is installed, else a list of dicts."""
    plain = [[str(cell) if type(cell) is Artifact else cell for cell in row] for row in listing.rows]
    try:
        return make_frame(plain, list(listing.columns))  # pandas is an extra
    except ImportError:
        return [dict(zip(listing.columns, row, strict=True)) for row in plain]


def _example(read: RunReader) -> str:
    for stage in read.workflow.stages:
        for record in read.records(stage).values():
            for output in outputs_of(record):
                return f"{stage}.{output}"
    return "STAGE.VALUE"
