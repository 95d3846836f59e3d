"""What the tasks of a stage read: points, files, hyperparameters, and what other stages made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diel.artifacts import Artifact
from diel.axes.domain import Group
from diel.errors import DielError
from diel.expressions import parse_tree
from diel.graph import Key, Published
from diel.paths import RunPaths
from diel.spec import Flaws
from diel.spec.model import refuse
from diel.tasks.files import Files
from diel.tasks.link import Link
from diel.tasks.results import Results, output_of, outputs_of
from diel.tasks.stage_run import StageRun
from diel.tasks.texts import Texts


class MissingInput(DielError):
    """An input or expression asks for something that a task did not make."""


class Sources:
    """What the tasks of one stage read. A scope is that of the task that reads, for what it says itself."""

    def __init__(
        self,
        run: StageRun,
        links: list[Link],
        results: Results,
        hyperparameters: Mapping[str, Any],
        folder: Path,
        paths: RunPaths,
    ) -> None:
        self.run = run
        self.links = links
        self.paths = paths
        self.texts = Texts(run.spec)
        self.files = Files(run.spec, folder)
        self._results = results
        self._hyperparameters = hyperparameters
        data = [link for link in links if not link.edge.stream]
        self.inputs = {link.edge.name: link for link in data if link.edge.name is not None}
        self.made = {
            (link.edge.upstream, link.edge.output): link
            for link in data
            if not link.edge.axis and not link.edge.published
        }
        """What expressions read of other stages, by stage and output."""
        self.own_inputs = {
            label: given.source.removeprefix("hp.")
            for label, given in run.spec.inputs.items()
            if given.source.startswith("hp.") and label not in self.inputs
        }
        """The inputs that are hyperparameters of the task itself, by label."""
        self._initially = {name: parse_tree(link.edge.initially) for name, link in self.inputs.items()}
        self._gathered: dict[Key, tuple[Group, list[Any]]] = {}

    def link_of(self, chain: tuple[str, ...]) -> Link | None:
        """The edge along which an expression reads what another stage made; None where it reads none."""
        return self.made.get((chain[0], chain[1] if len(chain) > 1 else None))

    def registry(self, index: int, scope: Mapping[str, Any]) -> dict[str, Any]:
        """The hyperparameters of a task: the run's, then what stages before it publish, then its trial's.

        Raises MissingInput where a published value is missing or does not fit.
        """
        published = {}
        for link in self.links:
            if link.edge.published is not None:
                members = link.members(link.group_of_downstream(index))
                maker = "/".join([link.edge.upstream, *map(str, members)])
                value = accepted(link.edge.published, self.read(link, index, scope), maker)
                published[link.edge.published.name] = value
        return {**self._hyperparameters, **published, **self.run.searched(index)}

    def read(self, link: Link, index: int, scope: Mapping[str, Any]) -> Any:
        """What a task reads along an edge: one output, or the list of the gathered ones."""
        group = link.group_of_downstream(index)
        if not link.edge.gathered:
            one = next(iter(link.members(group)), None)
            return self._begin(link, scope) if one is None else self.output(link, one)
        output = link.edge.output or link.edge.hyperparameter
        place = (*link.edge.key, str(output))  # one expression may read several outputs
        known = self._gathered.get(place)
        if known is None or known[0] != group or link.edge.renewed:
            known = group, [self.output(link, one) for one in link.good_members(group)]
            self._gathered[place] = known  # the latest group is the one that more tasks will read
        return self._begin(link, scope) if not known[1] and link.edge.begun else known[1]

    def _begin(self, link: Link, scope: Mapping[str, Any]) -> Any:
        """What a task of the first round reads in place of the round before."""
        return self._initially[str(link.edge.name)].value(scope)

    def output(self, link: Link, index: int) -> Any:
        """What one upstream task gives along an edge. Raises MissingInput, KeyError for a hyperparameter."""
        if link.edge.hyperparameter is not None:
            return {**self._hyperparameters, **link.up.searched(index)}[link.edge.hyperparameter]
        output = link.edge.output
        assert output is not None
        record = self._results.made(link.edge.upstream, index)
        try:
            return output_of(record, output, self.paths.root)
        except KeyError:
            point = link.up.point(index)
            if output in point:
                return point[output]
            made = ", ".join(outputs_of(record)) or "nothing"
            raise MissingInput(f"{link.edge.upstream}/{index} made no '{output}'; it made: {made}") from None


def accepted(published: Published, value: Any, maker: str) -> Any:
    """A published value as its hyperparameter keeps it. Raises MissingInput for a bad one."""
    try:
        if type(value) is Artifact:
            raise refuse("expected a value, found a file")
        return published.given.accept(value)
    except Flaws as error:
        told = f"hp.{published.name}, as {maker} has published it: {error.flaws[0].message}"
        raise MissingInput(told) from None
