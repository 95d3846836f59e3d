"""For TensorBoard: the curves and values of each task as scalars, its point and trial as hyperparameters."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import metadata
from tensorboard.plugins.hparams.api_pb2 import Status
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from diel.base.errors import UsageError, counted
from diel.base.values import is_finite
from diel.export import TaskOutcome, left_out, ran
from diel.observe.results import RunReader
from diel.observe.results.attempts import Curve, curves


def write(run: RunReader, into: Path, target: Path) -> list[str]:
    """Write `tensorboard/STAGE/INDEX`. Raise UsageError for a run in which nothing is a number."""
    tasks = ran(run)
    written, points = 0, 0
    for stage in run.graph.order:
        reported = curves(run, stage, range(run.history.stage(stage).total))
        numbers = {n for name, n in tasks if name == stage} | reported.keys()
        for number in sorted(numbers):
            task = tasks.get((stage, number))
            scalars = [*_scalars(task, reported.get(number, {}))]
            if scalars:
                _write_one(run, into / "tensorboard" / stage / str(number), (stage, number), task, scalars)
                written, points = written + 1, points + len(scalars)
    if not written:
        raise UsageError(f"{run.paths.run_id} has no numbers for TensorBoard: no task reported or made one")
    return [f"{counted(written, 'task')} with {points:,} numbers", *left_out(run, tasks)]


def _scalars(
    task: TaskOutcome | None, reported: Mapping[str, Curve]
) -> Iterator[tuple[str, int, float, float]]:
    """Name, step, value and time of each number: of what was reported, then, at its last step, of results."""
    ended = 0.0 if task is None else task.ended or 0.0
    last = max((step for curve in reported.values() for step in curve), default=0)
    for name, curve in reported.items():
        for step, (value, time) in sorted(curve.items()):
            yield name, step, value, ended if time is None else time
    for name, value in ({} if task is None else task.outcome.get("values", {})).items():
        if is_finite(value):
            yield f"result/{name}", last, float(value), ended


def _write_one(
    run: RunReader,
    folder: Path,
    key: tuple[str, int],
    task: TaskOutcome | None,
    scalars: list[tuple[str, int, float, float]],
) -> None:
    writer = EventFileWriter(str(folder))
    began = (None if task is None else task.began) or scalars[0][3]
    hp = {f"hp.{name}": _plain(value) for name, value in run.hyperparameters(*key).items()}
    values = hp | {name: _plain(value) for name, value in run.point(*key).items()}
    if values:
        head = hparams_pb(values, trial_id=f"{key[0]}/{key[1]}", start_time_secs=began)
        writer.add_event(Event(summary=head, wall_time=began))
    for name, step, value, time in scalars:
        scalar = Summary.Value(tag=name, simple_value=value)
        writer.add_event(Event(summary=Summary(value=[scalar]), step=step, wall_time=time))
    if values and task is not None:
        status = Status.STATUS_SUCCESS if task.state.good else Status.STATUS_FAILURE
        writer.add_event(_end(status, task.ended or began))
    writer.close()


def _end(status: Any, time: float) -> Any:
    """Return the end of a session, as TensorBoard's own function for it makes it, which needs TensorFlow."""
    data = HParamsPluginData(session_end_info=SessionEndInfo(status=status, end_time_secs=time))
    kind = metadata.create_summary_metadata(data)
    value = Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=kind, tensor=metadata.NULL_TENSOR)
    return Event(summary=Summary(value=[value]), wall_time=time)


def _plain(value: Any) -> bool | int | float | str:
    return value if isinstance(value, bool | int | float | str) else str(value)
