"""What one task of a stage asks for."""

from __future__ import annotations

from pydantic import Field

from diel.spec.model import Duration, Model, Name, Size


class Resources(Model):
    """Without `ranks` a task is one process, and the `…_per_rank` keys are its own."""

    nodes: int | None = Field(None, ge=1, description="Nodes that a task spans.")
    ranks: int | None = Field(None, ge=1, description="MPI processes of a task.")
    ranks_per_node: int | None = Field(None, ge=1, description="MPI processes on each node.")
    cores_per_rank: int = Field(1, ge=1, description="Cores of each process.")
    gpus_per_rank: int = Field(0, ge=0, description="GPUs of each process.")
    memory: Size | None = Field(None, description="Memory of a task on each node.")
    walltime: Duration | None = Field(None, description="Longest run time to plan for.")
    pool: Name | None = Field(None, description="The site's pool to run in.")

    @property
    def processes(self) -> int:
        return self.ranks or 1

    @property
    def cores(self) -> int:
        """Cores of a whole task, on all its nodes."""
        return self.processes * self.cores_per_rank

    @property
    def gpus(self) -> int:
        """GPUs of a whole task, on all its nodes."""
        return self.processes * self.gpus_per_rank
