"""What all tasks of a stage share when they are handed to a worker."""

from __future__ import annotations

from diel.attempt.bundle import Job, Staging
from diel.modules.catalogue import Module
from diel.spec import Stage
from diel.spec.model import plain
from diel.tasks.surrogate import surrogate_of


def job_of(
    name: str,
    stage: Stage,
    module: Module | None,
    launcher: tuple[str, ...],
    grace: float,
    staging: Staging | None,
) -> Job:
    """The job of a stage; `launcher`, `grace` and `staging` are what its site says of it."""
    return Job(
        stage=name,
        module=module,
        values={n: o.value for n, o in stage.outputs.items() if o.value is not None},
        timeout=stage.timeout,
        launcher=launcher,
        threads=stage.resources.cores_per_rank,
        ranks=stage.resources.processes,
        memory=stage.resources.memory,
        walltime=stage.resources.walltime,
        checkpoint=stage.checkpoint,
        grace=grace if stage.grace is None else stage.grace,
        staging=staging,
        service=plain(stage.service),
        surrogate=plain(surrogate_of(stage, module)),
        promises={n: plain(o) for n, o in stage.outputs.items() if o.stream is None and not o.is_plain},
    )
