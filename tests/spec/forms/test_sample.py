"""Points that are drawn: inside their bounds, spread as the method says, the same for a seed."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diel.base.errors import DielError
from diel.workflow.models import AxisForm, Workflow
from diel.workflow.models.forms.axis import Points
from tests.spec.forms.points import HERE, column, points_of, rows


def sample(method: str, points: int, parameters: Any, seed: int = 0, **more: Any) -> Points:
    spec = {"method": method, "points": points, "parameters": parameters, "seed": seed}
    return points_of({"sample": spec}, **more)


METHODS = st.sampled_from(["lhs", "sobol", "uniform"])


@given(METHODS, st.integers(1, 40), st.integers(0, 5), st.booleans(), st.data())
def test_a_sample_stays_inside_its_bounds(
    method: str, count: int, seed: int, log: bool, data: st.DataObject
) -> None:
    low = data.draw(st.floats(1e-9, 1e3) if log else st.floats(-1e9, 1e9))
    high = low + data.draw(st.floats(1e-3, 1e9))
    points = sample(method, count, {"u": {"low": low, "high": high, "log": log}}, seed)
    assert all(low <= value <= high for value in column(points, "u"))
    assert len(points) == count


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("low", [1e-5, 0.1, 3.3e7])
def test_a_range_as_narrow_as_rounding_is_kept_to(low: float, log: bool) -> None:
    high = low * (1 + 4e-16)
    values = column(sample("uniform", 50, {"u": {"low": low, "high": high, "log": log}}), "u")
    assert all(low <= value <= high for value in values)


@pytest.mark.parametrize("kind", ["int", "float"])
def test_bounds_that_are_further_apart_than_a_double_reaches_are_drawn_between(kind: str) -> None:
    values = column(sample("uniform", 200, {"u": {"low": -1.7e308, "high": 1.7e308, "type": kind}}), "u")
    assert 0.4 < sum(value < 0 for value in values) / 200 < 0.6
    assert all(-1.7e308 <= value <= 1.7e308 for value in values)
    assert len(set(values)) == 200


def test_a_bound_that_no_double_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="beyond a double"):
        sample("uniform", 2, {"u": {"low": 0, "high": 10**400, "type": "int"}})


@given(METHODS, st.integers(1, 30), st.booleans(), st.floats(0.1, 9), st.floats(1, 90))
def test_whole_numbers_are_whole_and_inside_their_bounds(
    method: str, count: int, log: bool, low: float, width: float
) -> None:
    if math.ceil(low) > math.floor(low + width):
        return
    bounds = {"low": low, "high": low + width, "log": log, "type": "int"}
    values = column(sample(method, count, {"n": bounds}), "n")
    assert all(type(value) is int and low <= value <= low + width for value in values)


@pytest.mark.parametrize(("low", "high"), [(1, 4), (0.6, 4.4)])
def test_each_whole_number_is_as_likely_as_another(low: float, high: float) -> None:
    points = sample("lhs", 400, {"n": {"low": low, "high": high, "type": "int"}})
    values = column(points, "n")
    assert [values.count(n) for n in (1, 2, 3, 4)] == [100] * 4


@given(st.integers(1, 60), st.integers(0, 3))
def test_a_latin_hypercube_has_one_point_in_each_stratum_of_each_parameter(count: int, seed: int) -> None:
    points = sample("lhs", count, {"u": {"low": 0, "high": 1}, "v": {"low": 0, "high": 1}}, seed)
    for name in ("u", "v"):
        strata = sorted(int(value * count) for value in column(points, name))
        assert strata == list(range(count))


def test_a_latin_hypercube_on_a_logarithmic_scale_has_one_point_in_each_decade() -> None:
    values = column(sample("lhs", 6, {"u": {"low": 1e-3, "high": 1e3, "log": True}}), "u")
    assert sorted(math.floor(math.log10(value)) for value in values) == [-3, -2, -1, 0, 1, 2]


@pytest.mark.parametrize("power", [0, 1, 4, 6])
def test_a_sobol_sequence_is_balanced_in_both_halves(power: int) -> None:
    count = 2**power
    points = sample("sobol", count, {"u": {"low": 0, "high": 1}, "v": {"low": 0, "high": 1}})
    for name in ("u", "v"):
        assert sorted(int(value * count) for value in column(points, name)) == list(range(count))


@pytest.mark.parametrize("method", ["lhs", "sobol", "uniform"])
def test_a_seed_gives_the_same_points_again_and_another_seed_others(method: str) -> None:
    ranges = {"u": {"low": 0, "high": 1}, "v": {"low": 1, "high": 9, "type": "int"}}
    first, again, other = (rows(sample(method, 10, ranges, seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_a_longer_sobol_sequence_begins_with_the_shorter_one() -> None:
    """So that adding points computes only the new ones."""
    ranges = {"u": {"low": 0, "high": 1}}
    assert rows(sample("sobol", 10, ranges)) == rows(sample("sobol", 25, ranges))[:10]
    assert rows(sample("uniform", 10, ranges)) == rows(sample("uniform", 25, ranges))[:10]


def test_ranges_may_come_from_the_registry() -> None:
    registry = {
        "rate": {"type": "float", "default": 0.1, "low": 1e-4, "high": 1.0, "log": True},
        "width": {"type": "int", "default": 2, "low": 1, "high": 8},
    }
    points = sample("lhs", 8, ["rate", "width"], hyperparameters=registry)
    assert points.parameters == ("rate", "width")
    assert sorted(column(points, "width")) == list(range(1, 9))
    assert sum(value < 1e-2 for value in column(points, "rate")) == 4


def test_a_design_that_needs_scipy_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(DielError, match=r"pip install 'diel\[sample\]'"):
        sample("lhs", 4, {"u": {"low": 0, "high": 1}})
    assert len(sample("uniform", 4, {"u": {"low": 0, "high": 1}})) == 4


def test_a_samples_points_can_be_written_as_json() -> None:
    points = sample("sobol", 4, {"u": {"low": 0, "high": 1}, "n": {"low": 0, "high": 9, "type": "int"}})
    assert json.loads(json.dumps(rows(points))) == [list(row) for row in rows(points)]


def test_a_samples_size_is_known_without_drawing_it() -> None:
    spec = {"method": "sobol", "points": 10_000_000, "parameters": {"u": {"low": 0, "high": 1}}}
    assert AxisForm.model_validate({"sample": spec}).axis.size({}) == 10_000_000


@pytest.mark.parametrize("method", ["lhs", "sobol", "uniform"])
def test_two_axes_without_a_seed_draw_different_points(method: str) -> None:
    design: dict[str, Any] = {"method": method, "points": 8, "parameters": {"u": {"low": 0, "high": 1}}}
    drawn = {"sample": design}

    def of(name: str, **more: Any) -> list[Any]:
        stages = {"s": {"command": ["true"], "over": [name]}}
        whole = {"diel": 1, "name": "w", "axes": {name: drawn}, "stages": stages, **more}
        return column(Workflow.model_validate(whole).axes[name].points_of(name, {}, HERE), "u")

    assert not {*of("train")} & {*of("test")}
    assert of("train") == of("train")
    assert not {*of("train")} & {*of("train", seed=1)}
    design["seed"] = 3
    assert of("train") == of("test", seed=1)
