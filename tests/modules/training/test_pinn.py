"""A network that must obey an equation finds its parameters; its derivatives are those of differences."""

from __future__ import annotations

import numpy as np
import pytest

import diel

torch = pytest.importorskip("torch", reason="diel[torch] is not installed")

from modules.simulation.flows import burgers, vortices  # noqa: E402 - after the look for PyTorch
from modules.training.pinn import Task, pinn  # noqa: E402


@pytest.mark.parametrize("equation", ["burgers", "navier_stokes"])
def test_residuals_are_differentiated_by_all_weights_and_parameters(equation: str) -> None:
    read = (burgers if equation == "burgers" else vortices)(points=10, seed=1)
    rng = np.random.default_rng(0)
    task = Task(read["points"], read["values"], equation, 4, 2, 5, rng)
    at = task.first(rng)
    at[-2:] = torch.tensor([0.5, -2.0])
    residuals, slopes = task.differentiated(at)
    way = torch.from_numpy(rng.standard_normal(len(at)))
    assert residuals.numpy() == pytest.approx(task.residuals(at).numpy())
    central = (task.residuals(at + 1e-5 * way) - task.residuals(at - 1e-5 * way)) / 2e-5
    assert (slopes @ way).numpy() == pytest.approx(central.numpy(), abs=1e-7)


def test_parameters_of_burgers_equation_are_found(
    context: diel.Context, capsys: pytest.CaptureFixture[str]
) -> None:
    read = burgers(points=100, viscosity=0.1, seed=1)
    result = pinn(
        **read, equation="burgers", known=[1.0, 0.1], hidden=8, others=100, steps=40, context=context
    )
    assert result["convection_error"] < 0.05
    assert result["viscosity_error"] < 0.05
    assert result["convection_error"] == pytest.approx(abs(result["convection"] - 1))
    assert result["misfit"] < 0.02
    assert capsys.readouterr().out.startswith("λ₁ = ")


def test_a_known_flow_leaves_nothing_of_the_equations() -> None:
    """Taylor and Green's vortices, u = −cos x sin y, v = sin x cos y, p = −(cos 2x + cos 2y)/4, all at t = 0."""
    from modules.training.pinn import navier_stokes

    x, y = torch.tensor([[0.3, 1.1, 2.0], [0.7, 2.2, 1.5]], dtype=torch.float64)
    cx, sx, cy, sy, nil = torch.cos(x), torch.sin(x), torch.cos(y), torch.sin(y), torch.zeros(3)
    p, px, py = -(torch.cos(2 * x) + torch.cos(2 * y)) / 4, torch.sin(2 * x) / 2, torch.sin(2 * y) / 2
    nu = 0.3
    columns = [
        (-cx * sy, sx * cy, p),
        (sx * sy, cx * cy, px),
        (-cx * cy, -sx * sy, py),
        (2 * nu * cx * sy, -2 * nu * sx * cy, nil),
        (cx * sy, -sx * cy, nil),
        (cx * sy, -sx * cy, nil),
        (nil, nil, nil),
    ]
    state = torch.stack([torch.stack(list(column), 1) for column in columns])
    rest = navier_stokes(state, torch.ones(3, 1), torch.full((3, 1), nu))
    assert rest.numpy() == pytest.approx(0, abs=1e-7)
