"""Where the modules, workflows and sites lie that come with diel."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def shipped(kind: Literal["modules", "workflows", "schedulers"]) -> Path:
    """A folder that diel ships: inside the package where it was installed from a wheel, beside
    the package in a checkout."""
    package = Path(__file__).parent
    installed = package / "_shipped" / kind
    return installed if installed.is_dir() else package.parent / kind
