"""diel: workflows for HPC and AI.

The public names: `module`, `Context`, `Interrupted` and `Pruned` for those who write modules, `run`,
`submit` and `open_run` for notebooks. They are loaded when first used, so that importing diel costs nothing.
`from diel import pytorch` is for modules that train with PyTorch, `from diel import tabular` for those that
learn from columns of numbers.
"""

from typing import TYPE_CHECKING, Any

from diel.base.version import __version__

if TYPE_CHECKING:
    from diel.api import Run as Run
    from diel.api import open_run as open_run
    from diel.api import run as run
    from diel.api import submit as submit
    from diel.base.errors import Interrupted as Interrupted
    from diel.base.errors import Pruned as Pruned
    from diel.ml import pytorch as pytorch
    from diel.ml import tabular as tabular
    from diel.worker.context import Context as Context
    from diel.workflow.modules.decorator import module as module

_PUBLIC = {
    "Context": "diel.worker.context",
    "Interrupted": "diel.base.errors",
    "Pruned": "diel.base.errors",
    "Run": "diel.api",
    "module": "diel.workflow.modules.decorator",
    "open_run": "diel.api",
    "run": "diel.api",
    "submit": "diel.api",
}

_FOR_TRAINING = ("pytorch", "tabular")

__all__ = ["Context", "Interrupted", "Pruned", "Run", "__version__", "module", "open_run", "run", "submit"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC and name not in _FOR_TRAINING:
        raise AttributeError(f"module 'diel' has no attribute {name!r}")
    from importlib import import_module  # here so that `import diel` stays free

    return (
        import_module(f"diel.ml.{name}")
        if name in _FOR_TRAINING
        else getattr(import_module(_PUBLIC[name]), name)
    )


def __dir__() -> list[str]:
    """List the public names, with those that are not loaded yet."""
    return sorted({*__all__, *_FOR_TRAINING})
