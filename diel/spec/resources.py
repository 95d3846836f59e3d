"""What one task of a stage asks for."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from diel.errors import counted
from diel.spec.model import Flaw, Limit, Name, Size, SpecModel, found, optional, refuse

_MANY = 10_000_000
_CHANGING = ("memory", "walltime")


def _name(launcher: Any) -> Any:
    if isinstance(launcher, list | tuple) or " " in str(launcher):
        message = f"expected the name of a launcher, found {found(launcher)}"
        raise refuse(message, "its words belong into `launchers` of the site file, under a name")
    return launcher


class Resources(SpecModel):
    """Without `ranks` a task is one process, and the `…_per_rank` keys are its own."""

    nodes: int | None = optional("Nodes that a task spans.", ge=1, le=_MANY)
    ranks: int | None = optional("MPI processes of a task.", ge=1, le=_MANY)
    ranks_per_node: int | None = optional("MPI processes on each node.", ge=1, le=_MANY)
    cores_per_rank: int = optional("Cores of each process.", 1, ge=1, le=_MANY)
    gpus_per_rank: int = optional("GPUs of each process.", 0, ge=0, le=_MANY)
    memory: Size | None = optional("Memory of a task on each node.")
    walltime: Limit | None = optional("Longest run time to plan for.")
    pool: Name | None = optional("The site's pool to run in.")
    launcher: Annotated[Name | None, BeforeValidator(_name)] = optional(
        "The site's launcher for its ranks; the pool's if absent."
    )

    @property
    def mpi(self) -> bool:
        """Whether a task is launched under MPI."""
        return self.ranks is not None or self.ranks_per_node is not None

    @property
    def processes(self) -> int:
        """Processes of a whole task: `ranks`, or nodes times ranks_per_node."""
        if self.ranks_per_node is None:
            return self.ranks or 1
        return self.ranks or (self.nodes or 1) * self.ranks_per_node

    @property
    def cores(self) -> int:
        """Cores of a whole task, on all its nodes."""
        return self.processes * self.cores_per_rank

    @property
    def gpus(self) -> int:
        """GPUs of a whole task, on all its nodes."""
        return self.processes * self.gpus_per_rank

    def changes(self, since: "Resources") -> dict[str, Any]:
        """What a later attempt asks for beyond these: `memory` in bytes, `walltime` in seconds."""
        return {name: mine for name in _CHANGING if (mine := getattr(self, name)) != getattr(since, name)}

    def changed(self, changes: Mapping[str, Any]) -> "Resources":
        """What an attempt asked for, from its journal record."""
        known = {name: changes[name] for name in _CHANGING if name in changes}
        return self.model_copy(update=known) if known else self

    def at_least(self, changes: Mapping[str, Any]) -> "Resources":
        """What a later attempt asks for after it was granted these: a retry never gets less."""
        return self.changed({name: max(changes[name], getattr(self, name) or 0) for name in changes})

    def flaws(self) -> Iterator[Flaw]:
        nodes, ranks, each = self.nodes, self.ranks, self.ranks_per_node
        if self.launcher is not None and not self.mpi:
            yield Flaw("`launcher` starts ranks, and there are none", "write ranks: 4", ("launcher",))
        if ranks is None:
            return
        if nodes is not None and each is not None and ranks != nodes * each:
            hint = f"drop one of the three, or write ranks: {nodes * each}"
            yield Flaw(f"{ranks} ranks are not {nodes} nodes times {each} ranks_per_node", hint, ("ranks",))
        elif each is not None and each > ranks:
            message = f"{each} ranks_per_node, but only {counted(ranks, 'rank')}"
            yield Flaw(message, f"write ranks_per_node: {ranks} or less", ("ranks_per_node",))
        elif nodes is not None and nodes > ranks:
            message = f"{nodes} nodes, but only {counted(ranks, 'rank')}"
            yield Flaw(message, "each node needs a rank", ("nodes",))
