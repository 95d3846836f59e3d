"""Parameters of equations from scattered readings of a flow, by a network that must obey the equations.

M. Raissi, P. Perdikaris and G. E. Karniadakis, J. Comput. Phys. 378, 686 (2019), section 4:

    burgers          u_t + λ₁ u u_x − λ₂ u_xx = 0
    navier_stokes    u_t + λ₁ (u · ∇) u + ∇p − λ₂ Δu = 0,  ∇ · u = 0; nobody reads the pressure p

They descend by Adam and L-BFGS. A small network is found in far fewer steps by Levenberg and Marquardt's
method (D. W. Marquardt, J. SIAM 11, 431 (1963)): its residuals are few enough to differentiate each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Annotated, Literal, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

import diel

Array = NDArray[np.float64]


class Identification(TypedDict):
    """Parameters of the equation."""

    convection: float
    """λ₁."""
    viscosity: float
    """λ₂."""
    convection_error: float
    """Relative, without its sign, as the next; 0 where the true one is not given."""
    viscosity_error: float
    misfit: float
    """Root mean square of network minus readings, by the readings' deviation."""
    residual: float
    """Root mean square of the equation's residuals."""
    steps: int


@diel.module(kind="training")
def pinn(
    points: Array,
    values: Array,
    equation: Literal["burgers", "navier_stokes"],
    context: diel.Context,
    known: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None,
    hidden: Annotated[int, Field(ge=2)] = 20,
    layers: Annotated[int, Field(ge=1)] = 2,
    others: Annotated[int, Field(ge=0)] = 500,
    steps: Annotated[int, Field(ge=1)] = 100,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Identification:
    """Minimise mean squares of network minus readings and of the equation's residuals, with equal weights.

    points: shape (readings, 2 or 3): x, or x and y, then t
    values: shape (readings, 1 or 2): the velocity
    known: the true λ₁ and λ₂, to tell errors by
    hidden, layers: of the network of tanh units
    others: points without readings, where the equation is to hold as well
    steps: at most
    seed: of the first weights and the other points

    Begin at λ₁ = 0 and λ₂ = exp(−6), as Raissi et al. do for Burgers' equation. Report the loss.
    """
    rng = np.random.default_rng(seed)
    task = Task(points, values, equation, hidden, layers, others, rng)
    flat, damping, number = task.first(rng), 1e-2, 0
    for number in range(1, steps + 1):
        residuals, slopes = task.differentiated(flat)
        curvature, gradient = slopes.T @ slopes, slopes.T @ residuals
        loss, step = float(residuals @ residuals), torch.zeros_like(flat)
        for _ in range(20):
            step = torch.linalg.solve(curvature + damping * torch.eye(len(flat), dtype=flat.dtype), gradient)
            if float((task.residuals(flat - step) ** 2).sum()) < loss:
                break
            damping *= 3
        else:
            break
        flat, damping = flat - step, max(damping / 3, 1e-12)
        if number % 10 == 0:
            convection, viscosity = float(flat[-2]), float(flat[-1].exp())
            context.report(step=number, loss=loss, convection=convection, viscosity=viscosity)
    readings = values.size
    residuals = task.residuals(flat)
    parameters = float(flat[-2]), float(flat[-1].exp())
    errors = [abs(value / true - 1) for value, true in zip(parameters, known or parameters, strict=True)]
    sys.stdout.write(f"λ₁ = {parameters[0]:.5g}, λ₂ = {parameters[1]:.5g} after {number} steps\n")
    return {
        "convection": parameters[0],
        "viscosity": parameters[1],
        "convection_error": errors[0],
        "viscosity_error": errors[1],
        "misfit": float((residuals[:readings] ** 2).sum() / values.shape[1]) ** 0.5,
        "residual": float((residuals[readings:] ** 2).sum()) ** 0.5,
        "steps": number,
    }


class Task:
    """Readings, an equation and the shape of a network; weights and parameters come as one flat list."""

    def __init__(
        self,
        points: Array,
        values: Array,
        equation: str,
        hidden: int,
        layers: int,
        extra: int,
        rng: np.random.Generator,
    ) -> None:
        low, high = points.min(0), points.max(0)
        everywhere = np.concatenate([points, rng.uniform(low, high, (extra, len(low)))])
        self.jet = jet(torch.from_numpy(2 * (everywhere - low) / (high - low) - 1), 2 / (high - low))
        self.seen, self.equation = torch.from_numpy(values), EQUATIONS[equation]
        widths = [len(low), *[hidden] * layers, values.shape[1] + (equation == "navier_stokes")]
        self.shapes = [shape for a, b in pairwise(widths) for shape in ((a, b), (b,))]

    def first(self, rng: np.random.Generator) -> torch.Tensor:
        """Draw weights as X. Glorot and Y. Bengio (AISTATS 2010) do, and add λ₁ and ln λ₂."""
        drawn = [
            rng.normal(0, (2 / sum(shape)) ** 0.5, shape).ravel() if len(shape) == 2 else np.zeros(shape)
            for shape in self.shapes
        ]
        return torch.from_numpy(np.concatenate([*drawn, [0.0, -6.0]]))

    def residuals(self, flat: torch.Tensor) -> torch.Tensor:
        """Return the residuals of readings and of the equation, each by the root of its number."""
        return torch.cat(self._passed(flat, lambda sums: sums)[0]).detach()

    def differentiated(self, flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the same and its derivatives, shape (residuals, parameters).

        A point's residual depends on that point's sums into units alone: one pass back for each kind of
        residual tells the derivatives by all sums, and those by weights are products with what came in.
        """
        sums: list[torch.Tensor] = []

        def record(of: torch.Tensor) -> torch.Tensor:
            sums.append(of if of.requires_grad else of.requires_grad_())
            return sums[-1]

        kinds, inputs, parameters = self._passed(flat, record)
        blocks = []
        for kind in kinds:
            by = [*sums, parameters]
            gradients = torch.autograd.grad(kind.sum(), by, retain_graph=True, materialize_grads=True)
            *slopes, last = (part[..., : len(kind), :] for part in gradients)
            row = []
            for part, slope in zip(inputs, slopes, strict=True):
                row += [torch.einsum("cni,cnj->nij", part[:, : len(kind)], slope).flatten(1), slope[0]]
            blocks.append(torch.cat([*row, last], 1))
        return torch.cat(kinds).detach(), torch.cat(blocks)

    def _passed(
        self, flat: torch.Tensor, record: Callable[[torch.Tensor], torch.Tensor]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
        """Return kinds of residuals, the inputs of each layer, and the parameters of each point."""
        pieces = torch.split(flat[:-2], [prod(shape) for shape in self.shapes])
        weights = [piece.reshape(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]
        state, inputs, points = self.jet, [], self.jet.shape[1]
        parameters = flat[-2:].expand(points, 2).clone().requires_grad_()
        for number in range(0, len(weights), 2):
            inputs.append(state.detach())
            bias = torch.zeros(len(state), 1, len(weights[number + 1]), dtype=flat.dtype)
            bias[0] = weights[number + 1]
            state = record(state @ weights[number] + bias)
            state = activated(state) if number < len(weights) - 2 else state
        off = (state[0, : len(self.seen), : self.seen.shape[1]] - self.seen) / self.seen.std(0)
        rest = self.equation(state, parameters[:, :1], parameters[:, 1:].exp())
        return [*(off / len(off) ** 0.5).T, *(rest / points**0.5).T], inputs, parameters


def jet(at: torch.Tensor, stretch: Array) -> torch.Tensor:
    """Return points as a network takes them, then their first and second derivatives along each axis."""
    first = torch.diag(torch.from_numpy(stretch))[:, None].expand(-1, *at.shape)
    return torch.cat([at[None], first, torch.zeros_like(first)])


def activated(sums: torch.Tensor) -> torch.Tensor:
    """Return tanh of sums, and its derivatives by the chain rule."""
    axes = len(sums) // 2
    value, slope, curve = torch.tanh(sums[0]), sums[1 : axes + 1], sums[axes + 1 :]
    first = 1 - value**2
    return torch.cat([value[None], first * slope, first * (curve - 2 * value * slope**2)])


def burgers(state: torch.Tensor, convection: torch.Tensor, viscosity: torch.Tensor) -> torch.Tensor:
    """Return the residual by u and its derivatives by x and t; shape (points, 1)."""
    value, x, t, xx, _ = state
    residual: torch.Tensor = t + convection * value * x - viscosity * xx
    return residual


def navier_stokes(state: torch.Tensor, convection: torch.Tensor, viscosity: torch.Tensor) -> torch.Tensor:
    """Return residuals by u, v, p and their derivatives: momentum along x and y, mass; shape (points, 3)."""
    value, x, y, t, xx, yy, _ = state
    carried = value[:, :1] * x[:, :2] + value[:, 1:2] * y[:, :2]
    momentum = t[:, :2] + convection * carried - viscosity * (xx + yy)[:, :2]
    pressure = torch.stack([x[:, 2], y[:, 2]], 1)
    return torch.cat([momentum + pressure, x[:, :1] + y[:, 1:2]], 1)


EQUATIONS = {"burgers": burgers, "navier_stokes": navier_stokes}
