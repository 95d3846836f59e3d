"""Outputs of a run as the rows of a table: a column for each axis parameter and output.

Over a search, the hyperparameters of each trial have columns too, `hp.NAME`; where results of a stage are
suspect, `STAGE.suspect` says which. Tasks are chosen at a point of the axes, or by a search or loop.
"""

import contextlib
import heapq
import json
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, product
from typing import Any

import yaml

from diel.base.errors import UsageError, counted, did_you_mean
from diel.base.states import TaskState
from diel.base.terms import SIMULATED
from diel.base.values import scalar, value_text
from diel.observe.results.reader import RunReader
from diel.observe.status.stage import count_text
from diel.observe.status.surrogate import audit_document, audited
from diel.store.journal.records import Made
from diel.store.table import Listing
from diel.tasks.link import Link
from diel.tasks.points.adaptive import Adaptive
from diel.tasks.points.domain import Group
from diel.tasks.results import output_of, outputs_of
from diel.workflow.graph.stage_graph import reach
from diel.workflow.load.nodes import Unreadable, compose, content
from diel.workflow.models import Choice
from diel.workflow.models.forms.axis import Points, alike, near, same

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


def suspects(run: RunReader) -> dict[str, set[int]]:
    """Return by stage the tasks whose result is suspect or read a suspect one; nothing without audits."""
    if not run.history.has_suspects():
        return {}
    histories = {name: stage.history for name, stage in run.stages.items()}
    return reached(run, {name: [*history.suspect(), *history.stays()] for name, history in histories.items()})


def suspect_inputs(
    run: RunReader, stage: str, index: int, suspect: Mapping[str, Collection[int]]
) -> dict[str, list[int]]:
    """Return the suspect tasks whose results a task reads, by stage."""
    read: dict[str, set[int]] = {}
    for link in run.into(stage):
        if not link.feeds:
            continue
        members = link.members(link.group_of_downstream(index)) if link.up.known else ()
        read.setdefault(link.up.name, set()).update(i for i in members if i in suspect[link.up.name])
    return {name: sorted(tasks) for name, tasks in read.items() if tasks}


def reached(
    run: RunReader, tasks: Mapping[str, Iterable[int]], without: Collection[str] = ()
) -> dict[str, set[int]]:
    """Return these tasks, and those with a result that rest on them, directly or through others, by stage.

    Tasks of the stages in `without` are left out, and what only these lead to.
    """
    tasks_by_stage = {name: set(tasks.get(name, ())) for name in run.stages}
    ordered = [link for link in run.links if link.edge.output is None and link.edge.hyperparameter is None]
    leads = [link for link in run.links if link.feeds]
    leads += [link for link in ordered if run.graph.decides(link.edge)]
    links = {name: [link for link in leads if link.down.name == name] for name in {*run.stages} - {*without}}
    turns = any(link.edge.follows for link in leads if link.down.name in links)
    more = any(tasks_by_stage.values())
    while more:
        before = sum(map(len, tasks_by_stage.values()))
        for name in run.graph.order:
            is_good = run.stages[name].history.is_good
            for link in links.get(name, ()):
                read = tasks_reading(link, tasks_by_stage[link.up.name])
                tasks_by_stage[name].update(filter(is_good, read))
        more = turns and sum(map(len, tasks_by_stage.values())) > before  # a round may read the one before it
    return tasks_by_stage


def decided_axes(run: RunReader, stage: str) -> list[str]:
    """Return the axes whose points rest on results of a stage, and are known."""
    axes, before = run.workflow.axes.items(), run.graph.before
    decided = [axis.label for axis in run.stages[stage].adaptive if stage in before(axis.judge.stages)]
    return decided + [label for label, axis in axes if axis.maker == stage and run.points(label)]


def tasks_reading(link: Link, tasks: Collection[int]) -> Iterator[int]:
    """Yield the tasks that read any of these along a link, once for each group, which millions may read."""
    verdicts: dict[Group, bool] = {}
    for index in range(link.down.size) if link.up.known and tasks else ():
        group = link.group_of_downstream(index)
        if group not in verdicts:
            verdicts[group] = any(member in tasks for member in link.members(group))
        if verdicts[group]:
            yield index


_WHOLE = re.compile(r"([-+]?(?:0|[1-9][0-9]*))(?:\.0*)?")
"""A whole number, as `1` or `1.0`, and no id such as `007`."""
LEAST_DIGITS = 3
"""A number with fewer digits means itself alone."""
LOOKED_AT = 100_000
"""Values of a column among which the nearest are looked for, for a message."""


class TypedText(str):
    """A value as somebody typed it: `2.5` is a number, or the text `2.5`."""

    @property
    def meanings(self) -> Iterator[Any]:
        """The meanings of a typed text, the plainest first."""
        if self:
            yield scalar(self)
        yield str(self)
        if self[:1] in ("[", "{"):
            with contextlib.suppress(Unreadable, yaml.YAMLError):
                node, complaints = compose(str(self))
                if node is not None and not complaints:
                    yield content(node, False, complaints)

    @property
    def digits(self) -> int:
        """How many digits of a float were typed, those that only place the point apart; 0 of other values."""
        match = re.fullmatch(r"[-+]?0*\.?0*([0-9.]*?)(?:[eE][-+]?[0-9]+)?", self)
        digits = "" if match is None or "." not in self else match[1].replace(".", "")
        return len(digits) if isinstance(scalar(self), float) else 0


def picked_tasks(run: RunReader, stage: str, indices: Collection[int], at: Mapping[str, Any]) -> list[int]:
    """Return the tasks of a stage that are `at` a point; the best of a search, the last of a loop.

    `at` has axis parameters by name; that of a search may be `best`, `pareto` or `{"top": 5}`, that of a loop
    `last`: picked once for each combination of the other axes, of what there is so far. Floats agree to nine
    digits, as in a workflow. `hp.NAME` is what a search set. Raise UsageError for what is no parameter of
    the stage.
    """
    names = [_parameter(run, stage, name) for name in at]
    if twice := [
        f"{name}={value}" for name, value in at.items() if names.count(_parameter(run, stage, name)) > 1
    ]:
        raise UsageError(f"{' and '.join(twice)} exclude each other: leave one of them out")
    at = dict(zip(names, at.values(), strict=True))
    choices = {name: choice for name, text in at.items() if (choice := _choice(run, name, text))}
    points = {name: value for name, value in at.items() if name not in choices and "." not in name}
    tasks = [i for i in all_at(run, stage, points) if i in indices] if points else sorted(indices)
    for name in at.keys() - choices.keys() - points.keys():
        meanings = _meanings(at[name])
        set_ = ((index, run.hyperparameters(stage, index).get(name.removeprefix("hp."))) for index in tasks)
        tasks = [index for index, value in set_ if any(same(value, meaning) for meaning in meanings)]
    ranks = {name: sum(name in run.adaptive[of].judge.context for of in choices) for name in choices}
    for label, choice in sorted(choices.items(), key=lambda item: -ranks[item[0]]):  # contexts choose first
        tasks = _chosen(run, stage, run.adaptive[label], choice, tasks)
    return tasks


def tasks_at(run: RunReader, stage: str, indices: Collection[int], at: Mapping[str, Any]) -> list[int]:
    """Return the tasks at a point. Raise UsageError where there are none, with the nearest values."""
    tasks = picked_tasks(run, stage, indices, at)
    if not tasks:
        raise UsageError(f"{run.paths.run_id}: {_nothing_at(run, stage, at)}")
    return tasks


def _parameter(run: RunReader, stage: str, name: str) -> str:
    """Return a parameter of a stage's axes, also as `AXIS.PARAMETER`. Raise UsageError without it."""
    names = run.setting_names(stage)
    axis, _, inner = name.partition(".")
    points = run.points(axis) if axis in run.workflow.stages[stage].over else None
    if points is not None and inner in points.parameters:
        return inner
    if name not in names:
        hint = did_you_mean(name, names) or f"it has: {', '.join(names) or 'none'}"
        raise UsageError(f"'{stage}' has no axis parameter '{name}'; {hint}")
    return name


def _meanings(value: Any) -> Sequence[Any]:
    return [*value.meanings] if isinstance(value, TypedText) else (value,)


def all_at(run: RunReader, stage: str, point: Mapping[str, Any]) -> list[int]:
    """Return the tasks at these values, in order: found from the points of each axis, not one by one."""
    domain = run.domain(stage)
    places: dict[str, Collection[int]] = {}
    for axis in domain.axes if domain is not None else ():
        points = run.points(axis)
        for name in points.parameters if points is not None else ():
            if points is not None and name in point:
                matches = _places(points, name, point[name])
                places[axis] = matches.intersection(places.get(axis, matches))
    rows = (dict(zip(places, row, strict=True)) for row in product(*places.values()))
    return domain.in_order(i for row in rows for i in domain.matching(row)) if domain is not None else []


def _places(points: Points, name: str, value: Any) -> set[int]:
    """Return the points at which a parameter has a value; if none has, those that round to what was typed."""
    places = {place for meaning in _meanings(value) for place in points.places(name, meaning)}
    column = points.columns[points.parameters.index(name)]
    if len(places) > 1:  # `007` is the text before it is the number 7, and `[1, 2]` before it is `[1.0, 2]`
        exact = {p for p in places if isinstance(value, TypedText) and value_text(column[p]) == value}
        exact = exact or {p for p in places if any(alike(column[p], meaning) for meaning in _meanings(value))}
        return exact or places
    if not places and isinstance(value, TypedText) and (whole := _WHOLE.fullmatch(value)):
        texts = () if isinstance(column, range) or hasattr(column, "place_of") else enumerate(column)
        cells = [(p, _WHOLE.fullmatch(text)) for p, text in texts if isinstance(text, str)]
        matches = {p for p, cell in cells if cell is not None and cell[1] == whole[1]}
        return matches if len(matches) == 1 else set()
    if places or not (isinstance(value, TypedText) and value.digits >= LEAST_DIGITS):
        return places
    number = float(value)
    floats = ((place, column[place]) for place in near(column, number))
    return {p for p, v in floats if isinstance(v, float) and float(f"{v:.{value.digits}g}") == number}


def _nothing_at(run: RunReader, stage: str, at: Mapping[str, Any]) -> str:
    for name, value in at.items():
        points = next(
            (p for a in run.workflow.stages[stage].over if (p := run.points(a)) and name in p.parameters),
            None,
        )
        if points is not None and not _places(points, name, value):
            column = points.columns[points.parameters.index(name)]
            nearest = ", ".join(f"{name}={value_text(n)}" for n in _nearest(column, _meanings(value)[0]))
            return f"no task of '{stage}' has {name}={value}; the nearest: {nearest}"
    return f"no task of '{stage}' has {' and '.join(f'{name}={value}' for name, value in at.items())}"


def _nearest(column: Sequence[Any], value: Any, most: int = 3) -> list[Any]:
    places = near(column, value)
    encoded = list(dict.fromkeys(map(json.dumps, (column[i] for i in islice(places, LOOKED_AT)))))
    values = [json.loads(text) for text in encoded]
    if isinstance(value, int | float):
        numbers = [number for number in values if isinstance(number, int | float)]
        return sorted(heapq.nsmallest(most, numbers, key=lambda number: abs(number - value))) or values[:most]
    from difflib import get_close_matches  # only where a word is wrong

    texts = [text for text in values[:500] if isinstance(text, str)]
    return get_close_matches(str(value), texts, n=most, cutoff=0.4) or values[:most]


def _choice(run: RunReader, name: str, value: Any) -> Choice | None:
    axis = run.adaptive.get(name)
    if axis is None:
        return None
    choice = axis.axis.choice(value)
    if choice is None or choice.word not in axis.axis.picks or choice.word == "previous":
        return None
    if (message := axis.axis.refusal(name, choice.word)) is not None:
        raise UsageError(f"{message}: pick {'best' if choice.word == 'pareto' else 'pareto'}")
    return choice


def _chosen(run: RunReader, stage: str, axis: Adaptive, choice: Choice, indices: Sequence[int]) -> list[int]:
    """Return the tasks at the points that a choice picks; the best first, where it picks the best few."""
    domain = run.domain(stage)
    assert domain is not None, "a stage with results has axes that are known"
    places = {index: domain.coordinates(index) for index in indices}
    if choice.word == "last":
        last: dict[tuple[int, ...], int] = {}
        for index, place in places.items():  # in the order of rounds: the last one with a result stays
            last[tuple(at for label, at in place.items() if label != axis.label)] = index
        return sorted(last.values())
    tasks: list[tuple[int, int]] = []
    for index, place in places.items():
        picked = axis.chosen(place, choice)
        if place[axis.label] in picked:
            tasks.append((picked.index(place[axis.label]), index))
    return [index for _, index in sorted(tasks)] if choice.word == "top" else [index for _, index in tasks]
