"""Making the axes of a run known: static ones at its start, derived ones when their stage is done."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from diel.artifacts import Artifact, differences, text_of
from diel.axes.domain import Origins
from diel.errors import UsageError
from diel.journal.records import Made
from diel.paths import RunPaths
from diel.spec import Axis, Workflow
from diel.spec.forms.axis import Points, bare, keep, read_kept
from diel.spec.forms.rows import Derived, read_points, rows_to_points
from diel.tasks.results import Results, output_of, outputs_of
from diel.tasks.stage_run import StageRun


class Axes:
    """The points of a run's axes, and where those of derived axes were made."""

    def __init__(
        self, workflow: Workflow, folder: Path, paths: RunPaths, opened: Collection[str] = ()
    ) -> None:
        """Open no axis yet. `opened` names the stages whose tasks an earlier controller knew."""
        self._workflow = workflow
        self._folder = folder
        self._paths = paths
        self._opened = opened
        self.points: dict[str, Points] = {}
        self.origins: dict[str, Origins] = {}

    def open_static(self) -> None:
        """Open every axis that a stage runs over, except derived ones. Raise UsageError."""
        used = {label for stage in self._workflow.stages.values() for label in stage.over}
        for label in self._workflow.axes:
            if label in used and self._workflow.axes[label].maker is None:
                self.points[label] = self._static(label, self._workflow.axes[label])

    def _static(self, label: str, axis: Axis) -> Points:
        registry = self._workflow.hyperparameters
        if not axis.is_kept:
            return axis.points_of(label, registry, self._folder)
        path = self._paths.axis(label)
        points = read_kept(path)
        if points is None:
            if any(label in self._workflow.stages[name].over for name in self._opened):
                raise UsageError(
                    f"axis '{label}': the points that this run was made with are gone ({path}); put the file "
                    "back, or start again with `diel run`, which takes from the cache what has not changed"
                )
            keep(axis.points_of(label, registry, self._folder), path)
            points = read_kept(path)
        assert points is not None
        return points

    def was_made_by(self, maker: str) -> bool:
        """Return whether an earlier controller of the run took an axis from a stage's results."""
        labels = (label for label, axis in self._workflow.axes.items() if axis.maker == maker)
        return any(self._paths.axis(label).exists() for label in labels)

    def open_derived(self, label: str, maker: StageRun, results: Results) -> None:
        """Take a derived axis from its maker's results. Raise UsageError where they are no points."""
        axis = self._workflow.axes[label]
        assert isinstance(axis, Derived)
        rows: list[tuple[Any, ...]] = []
        origins: list[tuple[int, ...]] = []
        names: tuple[str, ...] | None = None
        parts = self._parts(label, axis, maker, results)
        if kinds := _mixed(parts.values()):
            axis = replace(axis, types={**axis.types, **kinds})
            parts = self._parts(label, axis, maker, results)
        for index, part in parts.items():
            if len(part) and names is not None and part.parameters != names:
                raise UsageError(
                    f"axis '{label}': {maker.name}/{index} gives {', '.join(part.parameters)}, "
                    f"other tasks gave {', '.join(names)}"
                )
            names = part.parameters if len(part) or names is None else names
            rows += map(part.values, range(len(part)))
            origins += [tuple(maker.domain.coordinates(index).values())] * len(part)
        lost = {name: loss for part in parts.values() for name, loss in part.lost.items()}
        points = replace(Points.of_rows(names or axis.gives or (bare(label),), rows), lost=lost)
        keep(points, self._paths.axis(label))
        self.points[label] = points
        axes = tuple(maker.domain.coordinates(0)) if maker.size else maker.domain.axes
        if maker.domain.axes:
            self.origins[label] = Origins(axes, origins)

    def _parts(self, label: str, axis: Derived, maker: StageRun, results: Results) -> dict[int, Points]:
        """Return the points that each task made."""
        output = axis.output.rpartition(".")[2]
        good = (index for index in range(maker.size) if maker.history.state(index).good)
        return {
            index: self._read(label, axis, f"{maker.name}/{index}", results.record(maker.name, index), output)
            for index in good
        }

    def _read(self, label: str, axis: Derived, task: str, record: Made, output: str) -> Points:
        try:
            value = output_of(record, output, self._paths.root)
        except KeyError:
            names = ", ".join(outputs_of(record)) or "nothing"
            raise UsageError(f"axis '{label}': {task} made no '{output}'; it made: {names}") from None
        if isinstance(value, Artifact):
            if changes := differences(value, value.digest, value.identity):
                raise UsageError(f"axis '{label}': {task}.{output} ({value}): {text_of(changes)}")
            return read_points(Path(value), label, axis.gives, value.inside, axis.types)
        if not isinstance(value, list):
            raise UsageError(
                f"axis '{label}': {task}.{output} is {value!r}; expected a list, or a CSV or JSONL file"
            )
        return rows_to_points(value, label, axis.gives, f"{task}.{output}", axis.types)


def _mixed(parts: Iterable[Points]) -> dict[str, str]:
    """Return the columns whose cells have other types in one file than in another, with one for all."""
    columns: dict[str, list[Any]] = {}
    for points in parts:
        for name, column in zip(points.parameters if points.cells else (), points.columns, strict=False):
            columns.setdefault(name, []).extend(column)
    mixed = {name: column for name, column in columns.items() if len({*map(type, column)}) > 1}
    texts = {name for name in mixed if any(isinstance(v, str) or v != float(v) for v in mixed[name])}
    return {name: "str" if name in texts else "float" for name in mixed}
