"""The numbers in which a network computes, and a scale that keeps small gradients in half precision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import torch

from diel.pytorch.parallel.world import Ranks

Precision = Literal["fp64", "fp32", "bf16", "fp16"]
_HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_FIRST = 2.0**16
_GROW_AFTER = 200
"""Steps without an overflow after which the loss is scaled by twice as much."""


def type_of(precision: Precision) -> torch.dtype:
    """Return the type of weights, and of all that ranks exchange: half precision is for products alone."""
    return torch.float64 if precision == "fp64" else torch.float32


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """Return the context in which a network computes its products."""
    half = _HALVES.get(precision)
    return torch.autocast(device.type, dtype=half or torch.bfloat16, enabled=half is not None)


@dataclass
class Scaler:
    """Multiplies the loss, and divides the gradients by the same, so that those of fp16 stay above its
    smallest number, 6e-8 (P. Micikevicius et al., arXiv:1710.03740, section 3.2).

    Where a gradient of any rank overflows all of them skip the step: `torch.amp.GradScaler` looks only at the
    gradients of its own rank, and those of a mesh are not the same.
    """

    scale: float = 1.0
    good: int = 0
    """Steps since the last overflow or growth."""
    skipped: int = 0
    """Steps of the whole training, in whatever precision it began."""
    active: bool = False
    """Whether it scales at all."""

    @classmethod
    def of(cls, precision: Precision) -> Scaler:
        """Scale in fp16, and leave all else as it is."""
        return cls(_FIRST, active=True) if precision == "fp16" else cls()

    def after(self, other: Scaler) -> Scaler:
        """Return the scaler that goes on from another's scale, unless only one of the two scales."""
        return other if other.active == self.active else replace(self, skipped=other.skipped)

    def unscale(self, gradients: Iterable[torch.Tensor], world: Ranks) -> bool:
        """Divide the gradients in place; return whether they are all finite, on all ranks."""
        if not self.active:
            return True
        bad = 0.0
        for gradient in gradients:
            gradient.mul_(1 / self.scale)
            bad += float(not torch.isfinite(gradient).all())
        if world.largest(bad):
            self.scale, self.good, self.skipped = max(1.0, self.scale / 2), 0, self.skipped + 1
            return False
        self.good += 1
        if self.good == _GROW_AFTER:
            self.scale, self.good = 2 * self.scale, 0
        return True
