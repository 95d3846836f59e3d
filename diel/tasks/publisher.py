"""Published values: a stage's output becomes the project's hyperparameter when its task is committed."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from diel.base.errors import DielError
from diel.store.artifacts import Artifact
from diel.store.journal.records import Result
from diel.store.project.run_file import RunFile
from diel.store.registry import Change, append_change, read_changes
from diel.tasks.ledger import Ledger
from diel.tasks.link import Link
from diel.tasks.results import MissingInput, output_of
from diel.tasks.stage_run import StageRun
from diel.workflow.graph import PublishedHyperparameter
from diel.workflow.models import Violations, Workflow
from diel.workflow.models.model import refuse


class Publisher:
    """Adds what a run publishes to its project, once, though the run is resumed; of a loop the last round.
    What has a value a task, over a sweep or search, stays within the run."""

    def __init__(self, workflow: Workflow, run_file: RunFile, ledger: Ledger) -> None:
        self._workflow = workflow
        self._run_file = run_file
        self._ledger = ledger
        self._runs = ledger.paths.root.parent
        self._latest: dict[str, int] = {}
        """The last round of each stage that has published."""

    def note_end(self, stage: StageRun, index: int) -> None:
        """Publish the values of an ended task to the project. Only note errors."""
        in_turn = (self._workflow.axes[label].in_turn for label in stage.spec.over)
        if not stage.spec.publishes or not all(in_turn):
            return
        if not stage.history.state(index).good or index <= self._latest.get(stage.name, -1):
            return
        self._latest[stage.name] = index
        try:
            record = self._ledger.results.record(stage.name, index)
            values = self._values(stage, index, record)
            if values and not self._is_known(stage, index, record, values):
                change = Change(
                    "publication",
                    values,
                    workflow=self._workflow.name,
                    run=self._ledger.paths.run_id,
                    stage=stage.name,
                    task=index,
                    key=record["key"],
                    began=self._run_file.created,
                    user=self._run_file.user,
                )
                append_change(self._runs, change)
        except DielError as error:
            self._ledger.trouble(f"{stage.task(index)} publishes: {error}")

    def catch_up(self, stage: StageRun) -> None:
        """Publish results that were committed while no controller was running."""
        if stage.spec.publishes:
            good = (index for index in reversed(range(stage.size)) if stage.history.state(index).good)
            for index in islice(good, 1):
                self.note_end(stage, index)

    def _values(self, stage: StageRun, index: int, record: Result) -> dict[str, Any]:
        """Return the values that fit; report a bad one, which fails the tasks that read it."""
        values = {}
        for name, output in stage.spec.publishes.items():
            try:
                value = output_of(record, output, self._ledger.paths.root)
                published = PublishedHyperparameter(name, self._workflow.hyperparameters[name])
                values[name] = accepted(published, value, stage.task(index))
            except KeyError:
                self._ledger.trouble(f"{stage.task(index)} made no '{output}' to publish")
            except MissingInput as error:
                self._ledger.trouble(str(error))
        return values

    def _is_known(self, stage: StageRun, index: int, record: Result, values: Mapping[str, Any]) -> bool:
        """Return whether the project has these values, from this run or from the one behind the cache. Of a
        task that was computed again, only what it published last counts."""
        publications = [change for change in read_changes(self._runs)[0] if change.origin == "publication"]
        mine = (self._ledger.paths.run_id, self._run_file.created, stage.name, index)
        own = [its.values for its in publications if (its.run, its.began, its.stage, its.task) == mine]
        if own or record["event"] != "cached":
            return own[-1:] == [values]
        names = {*stage.spec.publishes}
        return any(change.key == record["key"] and names & {*change.values} for change in publications)


def accepted(published: PublishedHyperparameter, value: Any, maker: str) -> Any:
    """Return a published value in its hyperparameter's type. Raise MissingInput for a bad one."""
    try:
        if type(value) is Artifact:
            raise refuse("expected a value, found a file")
        return published.spec.accept(value)
    except Violations as error:
        message = f"hp.{published.name}, as {maker} has published it: {error.flaws[0].message}"
        raise MissingInput(message) from None


def published_values(links: Iterable[Link], index: int, read: Callable[[Link], Any]) -> dict[str, Any]:
    """Return values of earlier stages for a task, by name. Raise MissingInput for unfit ones."""
    values = {}
    for link in links:
        published = link.edge.published
        assert published is not None
        maker = "/".join([link.up.name, *map(str, link.members(link.group_of_downstream(index)))])
        values[published.name] = accepted(published, read(link), maker)
    return values
