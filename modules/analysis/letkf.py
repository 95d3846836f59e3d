"""The local ensemble transform Kalman filter: readings of a window of time correct an ensemble.

B. R. Hunt, E. J. Kostelich and I. Szunyogh, Physica D 230, 112 (2007), eqs. 21–24, with observations of
several times in one analysis (4D-LETKF, there too). Weights of observations fall with distance by eq. 4.10 of
G. Gaspari and S. E. Cohn, Q. J. R. Meteorol. Soc. 125, 723 (1999).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np
from numpy.typing import NDArray

import diel

if TYPE_CHECKING:
    from pydantic import Field

States = NDArray[np.float64]


class Analysis(TypedDict):
    """The ensemble at the window's end, and its errors: root mean squares over variables."""

    ensemble: States
    """Shape (members, variables)."""
    error: float
    """Of the ensemble's mean, with the window's observations."""
    forecast_error: float
    """The same without them: forecast over the whole window."""
    spread: float
    """The error that the ensemble expects of itself."""


@diel.module(kind="analysis")
def letkf(
    courses: list[States],
    observations: States,
    truth: States,
    window: Annotated[int, Field(ge=0)],
    inflation: Annotated[float, Field(ge=1)] = 1.04,
    radius: Annotated[float, Field(gt=0)] = 8.0,
    noise: Annotated[float, Field(gt=0)] = 1.0,
) -> Analysis:
    """Correct an ensemble on a circle at the end of a window of steps.

    courses: parts of the ensemble, each of shape (steps of the window, members, variables)
    observations: of the whole course, shape (all steps, sensors), at variables that are evenly spaced
    truth: shape (all steps, variables); enters only the errors
    window: the number of this window, from 0; as many windows of as many steps lie before it
    inflation: factor of the members' deviations from their mean
    radius: distance, in variables; an observation beyond twice of it has no weight
    noise: standard deviation of an observation

    Raise ValueError where the window lies beyond the observations.
    """
    course = np.concatenate(courses, axis=1)
    steps, members, variables = course.shape
    now = slice(window * steps, (window + 1) * steps)
    readings = observations[now]
    if len(readings) < steps:
        beyond = f"beyond the {len(observations)} observed ones"
        raise ValueError(f"window {window} of {steps} steps lies {beyond}")
    every = variables // readings.shape[1]
    states = course[-1]
    mean = states.mean(axis=0)
    expected = course[:, :, ::every]  # (steps, members, sensors)
    around = expected.mean(axis=1)
    # as columns of all times: shapes (members, steps · sensors) and (steps · sensors,)
    deviations = inflation * (expected - around[:, None]).transpose(1, 0, 2).reshape(members, -1)
    surprise = (readings - around).ravel()
    weights = np.tile(taper(variables, every, radius), (1, steps)) / noise**2  # (variables, steps · sensors)
    scaled = weights[:, None, :] * deviations  # (variables, members, steps · sensors)
    values, vectors = np.linalg.eigh((members - 1) * np.eye(members) + scaled @ deviations.T)
    inverse = (vectors / values[:, None]) @ vectors.transpose(0, 2, 1)
    root = (vectors * np.sqrt((members - 1) / values)[:, None]) @ vectors.transpose(0, 2, 1)
    weighted = root + inverse @ (scaled @ surprise)[:, :, None]  # (variables, members, members)
    own = inflation * (states - mean).T[:, None, :]
    ensemble = mean + (own @ weighted)[:, 0].T
    there = truth[now][-1]
    means = (ensemble.mean(axis=0), mean)
    error, forecast_error = (float(np.sqrt(np.mean((state - there) ** 2))) for state in means)
    spread = float(np.sqrt(ensemble.var(axis=0, ddof=1).mean()))
    return {"ensemble": ensemble, "error": error, "forecast_error": forecast_error, "spread": spread}


def taper(variables: int, every: int, radius: float) -> States:
    """Return weights of sensors for each variable, shape (variables, sensors): 0 from twice the radius on."""
    away = np.abs(np.subtract.outer(np.arange(variables), np.arange(0, variables, every)))
    z = np.minimum(away, variables - away) / radius
    near = 1 - 5 / 3 * z**2 + 5 / 8 * z**3 + z**4 / 2 - z**5 / 4
    with np.errstate(divide="ignore"):
        far = 4 - 5 * z + 5 / 3 * z**2 + 5 / 8 * z**3 - z**4 / 2 + z**5 / 12 - 2 / (3 * z)
    return np.where(z <= 1, near, np.where(z < 2, far, 0.0))
