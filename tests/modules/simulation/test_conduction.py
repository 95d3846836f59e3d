"""Heat is conducted as the equation says, its solver's derivatives are those of the solution, and fields come back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="diel[torch] is not installed")
pytest.importorskip("scipy", reason="diel[search] is not installed")

from modules.simulation.conduction import (  # noqa: E402 - after the look for their libraries
    Solve,
    conductances,
    conduction,
    cosines,
    gradient,
    jacobian,
    read,
    recover,
)

solve: Any = Solve.apply


def test_temperatures_are_those_of_the_exact_solution() -> None:
    """k = exp(x) and T = sin πx sin πy need the heat −∇·(k ∇T) = k (2π² sin πx − π cos πx) sin πy."""
    errors = []
    for cells in (16, 32):
        y, x = np.meshgrid(*[(np.arange(cells) + 0.5) / cells] * 2, indexing="ij")
        exact = np.sin(np.pi * x) * np.sin(np.pi * y)
        heat = np.exp(x) * (2 * np.pi**2 * exact - np.pi * np.cos(np.pi * x) * np.sin(np.pi * y)) / cells**2
        solution = solve(conductances(torch.from_numpy(x)), torch.from_numpy(heat.reshape(-1, 1)))
        errors.append(np.abs(solution.numpy()[:, 0] - exact.ravel()).max())
    assert errors[0] < 0.01
    assert errors[0] / errors[1] == pytest.approx(4, abs=0.5)  # of second order


def test_the_gradient_is_that_of_central_differences(capsys: pytest.CaptureFixture[str]) -> None:
    result = gradient(conduction(cells=16, sensors=4, seed=1)["field"], sensors=4, places=20)
    assert result["difference"] < 1e-6
    assert result["largest"] < 1e-5
    assert capsys.readouterr().out.startswith("gradient beside central differences at 20 cells: ")


def test_sources_are_differentiated_too() -> None:
    """The solution is linear in them: its derivative along a way is what the way makes."""
    faces, rng = conductances(torch.zeros(4, 4, dtype=torch.float64)), np.random.default_rng(0)
    right, way, weights = (torch.from_numpy(rng.standard_normal((16, 2))) for _ in range(3))
    right.requires_grad_()
    (solve(faces, right) * weights).sum().backward()
    assert right.grad is not None
    assert float((right.grad * way).sum()) == pytest.approx(float((solve(faces, way) * weights).sum()))


def test_all_readings_are_differentiated_at_once_by_adjoints() -> None:
    modes, rng = cosines(8), np.random.default_rng(0)
    at, way = 0.1 * rng.standard_normal(144), rng.standard_normal(144)

    def readings(amplitudes: np.ndarray[tuple[int], np.dtype[np.float64]]) -> object:
        return read(torch.from_numpy((modes @ amplitudes).reshape(8, 8)), 4).numpy().ravel()

    central = (readings(at + 1e-5 * way) - readings(at - 1e-5 * way)) / 2e-5  # type: ignore[operator]
    assert jacobian(modes, at, 4) @ way == pytest.approx(central, rel=1e-6)


def test_a_field_is_found_the_better_the_less_sensors_err() -> None:
    truth = conduction(cells=16, sensors=4, seed=3)
    good, bad = (recover(truth["field"], truth["readings"], noise, seed=3) for noise in (0.02, 0.2))
    assert good["error"] < bad["error"] < 0.9 < bad["constant"]
    for result in (good, bad):
        assert 0.7 < result["misfit"] <= 1  # as much as the noise, and not less
        assert result["hindsight"] <= result["error"]
        off = np.linalg.norm(result["field"] - truth["field"])
        assert off / np.linalg.norm(truth["field"] - truth["field"].mean()) == pytest.approx(result["error"])


def test_what_cannot_be_read_so_well_is_refused() -> None:
    with pytest.raises(ValueError, match="sensors must divide the 16 cells of a side; found 5"):
        conduction(cells=16, sensors=5)
    truth = conduction(cells=8, sensors=8, seed=0)
    with pytest.raises(ValueError, match="take more cells, or expect more noise"):
        recover(truth["field"], truth["readings"], noise=1e-5)
