"""Outputs of a run as the rows of a table: a column for each axis parameter and output.

Over a search, the hyperparameters of each trial have columns too, `hp.NAME`; where results of a stage are
suspect, `STAGE.suspect` says which.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from diel.axes.domain import Domain
from diel.errors import UsageError, counted, did_you_mean
from diel.results.picked import picked_tasks, tasks_at
from diel.results.recorded import Recorded
from diel.states import TaskState
from diel.status.surrogate import audit_document, audited
from diel.status.tasks import count_text
from diel.table import Listing
from diel.tasks.results import output_of, outputs_of

if TYPE_CHECKING:
    from diel.journal.records import Made

DROPPED = "deleted after use"
"""Shown instead of an artifact that was not kept (`keep: false`, `diel clean --intermediate`)."""


def make_table(
    run: Recorded, wanted: Sequence[str], limit: int | None = None, at: Mapping[str, Any] | None = None
) -> Listing:
    """The outputs `STAGE.VALUE` (or `STAGE`, for all of its own) of a run, joined along shared axes.

    A row is a task of the stage that has all the axes; what other stages made is repeated along
    the axes that they lack. Tasks without a result have no row, or an empty cell where they are not
    what the rows are. `at` has values of axis parameters, which choose rows. Raises UsageError for a
    stage, output or point that is not there, and where no stage has all axes.
    """
    uses = [_parse(run, word) for word in wanted]
    stages = list(dict.fromkeys(stage for stage, _ in uses))
    records = {stage: run.records(stage) for stage in stages}
    main = _widest(run, stages)
    columns = _columns(run, uses, records)
    parameters, searched = run.parameters(main), run.searched(main)
    suspect = suspects(run)
    doubted = [stage for stage in stages if suspect.get(stage)]
    cells: list[_Column | _Mark] = [
        *(_Column(run, main, stage, output, records[stage]) for stage, output in columns),
        *(_Mark(run, main, stage, suspect[stage]) for stage in doubted),
    ]
    rows = []
    domain = run.domain(main)
    there = sorted(records[main]) if domain is None else domain.in_order(records[main])
    if at:
        there = picked_tasks(run, main, records[main], at)
        if not there:
            tasks_at(run, main, range(run.history.stage(main).total), at)  # raises if none is there at all
    for index in there[:limit]:
        point = run.point(main, index)
        # A task that its search left alone, as its `when` did not hold, has none of the trial's.
        trial = run.hyperparameters(main, index) if searched else {}
        own = (*(point[name] for name in parameters), *(trial.get(name) for name in searched))
        rows.append((*own, *(cell.value(index) for cell in cells)))
    made = (f"{stage}.{output}" for stage, output in columns)
    marks = (f"{stage}.suspect" for stage in doubted)
    names = (*parameters, *(f"hp.{name}" for name in searched), *made, *marks)
    notes = {
        stage: [
            *_missing(run, stage, len(records[stage])),
            *_dropped(run, stage, columns),
            *audited(run.history, stage),
            *_doubted(run, stage, suspect.get(stage, ())),
        ]
        for stage in stages
    }
    audits = {stage: found for stage in stages if (found := audit_document(run.history, stage)) is not None}
    return Listing(names, rows, {stage: "; ".join(texts) for stage, texts in notes.items() if texts}, audits)


def suspects(run: Recorded) -> dict[str, set[int]]:
    """By stage, the tasks whose result is suspect, or read one that is."""
    if not run.history.has_suspects():
        return {}
    from diel.results.suspect import suspect_tasks  # how tasks read each other, which few tables need
    from diel.results.view import RunView

    return suspect_tasks(RunView(run))


def _parse(run: Recorded, word: str) -> tuple[str, str]:
    """A stage and its output; an empty text for all that it made."""
    stages = run.workflow.stages
    stage, dot, output = stage_and_output(word, stages)
    if stage not in stages:
        hint = did_you_mean(stage, stages) or f"stages: {', '.join(stages)}"
        raise UsageError(f"{run.paths.run_id} has no stage '{stage}'; {hint}")
    if dot and not output:
        raise UsageError(f"'{word}': expected STAGE.VALUE, or STAGE alone for all its values")
    return stage, output


def stage_and_output(word: str, stages: Container[str]) -> tuple[str, str, str]:
    """The parts of STAGE or STAGE.VALUE, as `partition` gives them: a stage's own name may have dots."""
    if word in stages or "." not in word:
        return word, "", ""
    return word.rpartition(".")


def _widest(run: Recorded, stages: Sequence[str]) -> str:
    """The stage whose axes are all that are needed; raises UsageError where there is none."""
    over = {stage: run.workflow.stages[stage].over for stage in stages}
    widest = max(stages, key=lambda stage: len(over[stage]))
    for stage in stages:
        if not set(over[stage]) <= set(over[widest]):
            own = ", ".join(over[stage])
            raise UsageError(
                f"'{stage}' runs over {own}, '{widest}' over {', '.join(over[widest])}: neither has all "
                "axes of the other, so their results share no rows; ask for them one at a time"
            )
    return widest


def _columns(
    run: Recorded, uses: Sequence[tuple[str, str]], records: Mapping[str, Mapping[int, Made]]
) -> list[tuple[str, str]]:
    columns: dict[tuple[str, str], None] = {}
    for stage, output in uses:
        made = _made(records[stage].values())
        if not output:
            columns.update(dict.fromkeys((stage, each) for each in made))
        elif output in made:
            columns[(stage, output)] = None
        elif output not in run.parameters(stage):  # an axis parameter has its column already
            raise UsageError(_no_output(run, stage, output, made))
    return list(columns)


def _no_output(run: Recorded, stage: str, output: str, made: Sequence[str]) -> str:
    if not made:
        counts = run.history.stage(stage).counts()
        states = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
        known = f"'{stage}' has no results ({states or 'no tasks yet'})"
        return f"{run.paths.run_id}: {known}; `diel explain` says why"
    hint = did_you_mean(output, made) or f"it makes: {', '.join(made)}"
    return f"'{stage}' made no '{output}'; {hint}"


def _made(records: Iterable[Made]) -> list[str]:
    """The outputs that a stage's tasks made, in the order in which they first came."""
    return list(dict.fromkeys(name for record in records for name in outputs_of(record)))


@dataclass(frozen=True)
class _Cell:
    """Something of a stage, read for the rows of another one."""

    run: Recorded
    main: str
    stage: str

    def _index(self, row: int) -> int:
        if self.stage == self.main:
            return row
        mine, rows = self._domain(self.stage), self._domain(self.main)
        place = rows.coordinates(row)
        index = mine.index({axis: place[axis] for axis in mine.axes})
        return -1 if index is None else index

    def _domain(self, stage: str) -> Domain:
        domain = self.run.domain(stage)
        assert domain is not None, "a stage with results has axes that are known"
        return domain


@dataclass(frozen=True)
class _Column(_Cell):
    """One output."""

    output: str
    records: Mapping[int, Made]

    def value(self, row: int) -> Any:
        """The cell of a row; None if the task made none."""
        index = self._index(row)
        record = self.records.get(index)
        if record is None or self.run.is_dropped(self.stage, self.output, index):
            return None
        try:
            return output_of(record, self.output, self.run.paths.root)
        except KeyError:
            return None


@dataclass(frozen=True)
class _Mark(_Cell):
    """Whether a task is one of these."""

    tasks: Collection[int]

    def value(self, row: int) -> bool:
        return self._index(row) in self.tasks


def _dropped(run: Recorded, stage: str, columns: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Which artifacts were deleted after their use: their cells are empty."""
    wanted = {output for name, output in columns if name == stage}
    for output, tasks in run.history.stage(stage).dropped.items():
        if output in wanted:
            yield f"'{stage}.{output}' of {counted(len(tasks), 'task')} was deleted after use"


def _doubted(run: Recorded, stage: str, suspect: Collection[int]) -> Iterator[str]:
    """How many results read suspect ones; those that are suspect answers, their audit tells."""
    read = sorted(set(suspect).difference(run.history.stage(stage).suspect()))
    if read:
        step = f"`diel explain {run.paths.run_id} {stage}/{read[0]}` says what to do"
        yield f"{counted(len(read), 'result')} of '{stage}' read suspect ones; {step}"


def _missing(run: Recorded, stage: str, found: int) -> Iterator[str]:
    history = run.history.stage(stage)
    counts = history.counts()
    total, failed = counted(sum(counts.values()), "task"), len(history.tolerated)
    lost = {state: n for state, n in counts.items() if n and state not in ("done", "cached")}
    why = [count_text(TaskState[state.upper()], n, failed) for state, n in lost.items()]
    damaged = run.damaged(stage, found)
    if damaged:
        why.append(f"{damaged:,} damaged in the journal")
    if why:
        yield f"{sum(lost.values()) + damaged:,} of {total} of '{stage}' have no result: {', '.join(why)}"


def summarize(run: Recorded) -> Listing:
    """The results of a run: a row for each output."""
    rows: list[tuple[Any, ...]] = []
    for stage, spec in run.workflow.stages.items():
        records = run.records(stage)
        total = run.history.stage(stage).expected
        for output in _made(records.values()):
            holder = next(index for index in sorted(records) if output in outputs_of(records[index]))
            value = output_of(records[holder], output, run.paths.root)
            if run.is_dropped(stage, output, holder):
                value = DROPPED
            rows.append((f"{stage}.{output}", " × ".join(spec.over), f"{len(records):,} of {total:,}", value))
    notes = {
        stage: "; ".join([*audited(run.history, stage), *_doubted(run, stage, tasks)])
        for stage, tasks in suspects(run).items()
        if tasks
    }
    return Listing(("output", "axes", "results", "first"), rows, notes)
