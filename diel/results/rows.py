"""Outputs of a run as the rows of a table: a column for each axis parameter and output.

Over a search, the hyperparameters of each trial have columns too, `hp.NAME`; where results of a stage are
suspect, `STAGE.suspect` says which.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from diel.errors import UsageError, counted, did_you_mean
from diel.graph.stage_graph import reach
from diel.journal.records import Made
from diel.results.picked import picked_tasks, tasks_at
from diel.results.reader import RunReader
from diel.results.suspect import suspects
from diel.states import TaskState
from diel.status.stage import count_text
from diel.status.surrogate import audit_document, audited
from diel.table import Listing
from diel.tasks.results import output_of, outputs_of
from diel.terms import SIMULATED

Place = Mapping[str, int]
"""The coordinates of a row: a point of each of its axes."""
DROPPED = "deleted after use"
"""Shown instead of an artifact that was not kept (`keep: false`, `diel clean --intermediate`)."""


def make_table(
    run: RunReader, words: Sequence[str], limit: int | None = None, at: Mapping[str, Any] | None = None
) -> Listing:
    """Return the outputs `STAGE.VALUE` (or `STAGE`, for all of its own) of a run, joined along shared axes.

    An outer join: each point at which one of the stages has a result has a row, in any order of the stages;
    what other stages lack is an empty cell. What a stage made is repeated along the axes that it lacks.
    `at` has values of axis parameters, which choose rows. Raise UsageError for a stage, output or point
    that is not there, and where no stage has all axes.
    """
    uses = [_parse(run, word) for word in words]
    stages = list(dict.fromkeys(stage for stage, _ in uses))
    records = {stage: run.records(stage) for stage in stages}
    main = _widest(run, stages)
    columns = _columns(run, uses, records)
    names = run.setting_names(main)
    suspect = suspects(run)
    doubted = [stage for stage in stages if suspect.get(stage)]
    cells: list[tuple[str, Callable[[int | None], Any]]] = [
        *((stage, partial(_cell, run, stage, output, records[stage])) for stage, output in columns),
        *((stage, suspect[stage].__contains__) for stage in doubted),
    ]
    rows = []
    there = _joined(run, main, records, at)
    if at and not there:
        tasks_at(run, main, range(run.history.stage(main).total), at)  # raises if none is there at all
    for place in there[:limit]:
        indices = {stage: _index(run, stage, place) for stage in stages}
        index = indices[main]
        # A task that its search left alone, as its `when` did not hold, has none of the trial's.
        own = run.point_at(place) if index is None else run.setting(main, index)
        rows.append((*map(own.get, names), *(cell(indices[stage]) for stage, cell in cells)))
    outputs = (f"{stage}.{output}" for stage, output in columns)
    marks = (f"{stage}.suspect" for stage in doubted)
    notes = {
        stage: [
            *_missing(run, stage, len(records[stage])),
            *_dropped(run, stage, columns),
            *audited(run.history, stage),
            *_doubted(run, stage, suspect.get(stage, ())),
            *(
                [f"'{stage}' reads {counted(n, 'answer')} of models"]
                if (n := answers_read(run, stage))
                else ()
            ),
        ]
        for stage in stages
    }
    audits = {stage: audit for stage in stages if (audit := audit_document(run.history, stage)) is not None}
    remarks = {stage: "; ".join(texts) for stage, texts in notes.items() if texts}
    return Listing((*names, *outputs, *marks), rows, remarks, audits)


def _joined(
    run: RunReader, main: str, records: Mapping[str, Mapping[int, Made]], at: Mapping[str, Any] | None
) -> list[Place]:
    """Return the coordinates of each row: of the stage with all axes first, then what others alone have."""
    rows: list[Place] = []
    for stage in sorted(records, key=lambda name: (-len(_axes(run, name)), name != main)):
        axes, domain = _axes(run, stage), run.domain(stage)
        if domain is None or (at and not at.keys() <= {*run.parameters(stage)} and stage != main):
            continue
        equal = [name for name in records if {*_axes(run, name)} == {*axes}] if stage == main else [stage]
        places = [run.place(name, index) for name in equal for index in records[name]]
        present = {tuple(row[axis] for axis in axes) for row in rows if row.keys() >= {*axes}}
        fresh = [place for place in places if tuple(place[axis] for axis in axes) not in present]
        indices = {index for place in fresh if (index := domain.index(place)) is not None}
        chosen = picked_tasks(run, stage, indices, at) if at else domain.in_order(indices)
        rows += map(domain.coordinates, chosen)
    return rows


def _axes(run: RunReader, stage: str) -> Sequence[str]:
    domain = run.domain(stage)
    return run.workflow.stages[stage].over if domain is None else domain.axes


def _index(run: RunReader, stage: str, place: Place) -> int | None:
    domain = run.domain(stage)
    has = domain is not None and place.keys() >= {*domain.axes}
    return domain.index(place) if domain is not None and has else None


def _parse(run: RunReader, word: str) -> tuple[str, str]:
    """Return a stage and its output; an empty text for all that it made."""
    stage, dot, output = stage_and_output(word, run.workflow.stages)
    run.check_stage(stage)
    if dot and not output:
        raise UsageError(f"'{word}': expected STAGE.VALUE, or STAGE alone for all its values")
    return stage, output


def stage_and_output(word: str, stages: Container[str]) -> tuple[str, str, str]:
    """Return the parts of STAGE or STAGE.VALUE, as `partition` does: a stage's own name may have dots."""
    return (word, "", "") if word in stages or "." not in word else word.rpartition(".")


def _widest(run: RunReader, stages: Sequence[str]) -> str:
    """Return the stage whose axes are all that are needed; raises UsageError where there is none."""
    over = {stage: _axes(run, stage) for stage in stages}
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
    run: RunReader, uses: Sequence[tuple[str, str]], records: Mapping[str, Mapping[int, Made]]
) -> list[tuple[str, str]]:
    columns: dict[tuple[str, str], None] = {}
    for stage, output in uses:
        outputs = list(made_counts(records[stage].values()))
        if not output:
            columns.update(dict.fromkeys((stage, name) for name in outputs))
        elif output in outputs or (not outputs and any(records.values())):
            columns[(stage, output)] = None
        elif output not in run.parameters(stage):  # an axis parameter has its column already
            raise UsageError(_no_output(run, stage, output, outputs))
        if answered_of(run, stage):  # whatever is shown of it: which of it a model answered
            columns[(stage, SIMULATED)] = None
    return list(columns)


def _no_output(run: RunReader, stage: str, output: str, outputs: Sequence[str]) -> str:
    if not outputs:
        counts = run.history.stage(stage).counts()
        states = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
        reason = f"'{stage}' has no results ({states or 'no tasks yet'})"
        return f"{run.paths.run_id}: {reason}; `diel explain` says why"
    hint = did_you_mean(output, outputs) or f"it makes: {', '.join(outputs)}"
    return f"'{stage}' made no '{output}'; {hint}"


def made_counts(records: Iterable[Made]) -> dict[str, int]:
    """Return the outputs that tasks made, in the order in which they first came: how many have a value."""
    counts: dict[str, int] = {}
    for record in records:
        values = record.get("values", {})
        for name in outputs_of(record):
            counts[name] = counts.get(name, 0) + (values.get(name, ...) is not None)
    return counts


def answered_of(run: RunReader, stage: str) -> int:
    """Return how many results of a stage its surrogate answered."""
    surrogate = run.history.stage(stage).surrogate
    return 0 if surrogate is None else surrogate.answered


def answers_read(run: RunReader, stage: str) -> int:
    """Return how many results of other stages that a model answered a stage reads, also through others."""
    read = reach([stage], lambda name: [edge.upstream for edge in run.graph.into(name) if edge.output])
    return sum(answered_of(run, other) for other in {*read} - {stage})


def _cell(run: RunReader, stage: str, output: str, records: Mapping[int, Made], index: int | None) -> Any:
    if index is None or index not in records or run.is_dropped(stage, output, index):
        return None
    record = records[index]
    return output_of(record, output, run.paths.root) if output in outputs_of(record) else None


def _dropped(run: RunReader, stage: str, columns: Iterable[tuple[str, str]]) -> Iterator[str]:
    outputs = {output for name, output in columns if name == stage}
    for output, tasks in run.history.stage(stage).dropped.items():
        if output in outputs:
            yield f"'{stage}.{output}' of {counted(len(tasks), 'task')} was deleted after use"


def _doubted(run: RunReader, stage: str, suspect: Collection[int]) -> Iterator[str]:
    """Yield how many results read suspect ones. Of suspect answers their audit tells."""
    read = sorted(set(suspect).difference(run.history.stage(stage).suspect()))
    if read:
        step = f"`diel explain {run.paths.run_id} {stage}/{read[0]}` says what to do"
        yield f"{counted(len(read), 'result')} of '{stage}' read suspect ones; {step}"


def _missing(run: RunReader, stage: str, present: int) -> Iterator[str]:
    history = run.history.stage(stage)
    counts = history.counts()
    total, failed = counted(sum(counts.values()), "task"), len(history.tolerated)
    lost = {state: n for state, n in counts.items() if n and state not in ("done", "cached")}
    why = [count_text(TaskState[state.upper()], n, failed) for state, n in lost.items()]
    damaged = run.damaged(stage, present)
    if damaged:
        why.append(f"{damaged:,} damaged in the journal")
    if why:
        yield f"{sum(lost.values()) + damaged:,} of {total} of '{stage}' have no result: {', '.join(why)}"


def output_rows(
    run: RunReader, stage: str, records: Mapping[int, Made], total: str
) -> Iterator[tuple[str, str, str, Any]]:
    """Yield a row for each output that tasks made: its axes, how many of all have it, its first value."""
    over = " × ".join(run.workflow.stages[stage].over)
    answers = f", {count:,} answered by a model" if (count := answered_of(run, stage)) else ""
    answers += f", from {counted(read, 'answer')} of models" if (read := answers_read(run, stage)) else ""
    for output, number in made_counts(records.values()).items():
        holder = next(index for index in sorted(records) if output in outputs_of(records[index]))
        dropped = run.is_dropped(stage, output, holder)
        value = DROPPED if dropped else output_of(records[holder], output, run.paths.root)
        number -= sum(run.is_dropped(stage, output, index) for index in records)
        yield f"{stage}.{output}", over, f"{number:,} of {total}{answers}", value


def summarize(run: RunReader) -> Listing:
    """Return the results of a run: a row for each output."""
    rows: list[tuple[Any, ...]] = []
    for stage in run.workflow.stages:
        rows += output_rows(run, stage, run.records(stage), f"{run.history.stage(stage).expected:,}")
    notes = {
        stage: "; ".join([*audited(run.history, stage), *_doubted(run, stage, tasks)])
        for stage, tasks in suspects(run).items()
        if tasks
    }
    return Listing(("output", "axes", "results", "first"), rows, notes)
