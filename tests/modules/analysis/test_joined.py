"""Parts beside the whole."""

from __future__ import annotations

import numpy as np
import pytest

from modules.analysis.joined import joined

WHOLE = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_of_the_whole_do_not_differ_from_it(axis: int, capsys: pytest.CaptureFixture[str]) -> None:
    result = joined(np.array_split(WHOLE, 3, axis=axis), WHOLE, axis)
    assert result == {"largest_difference": 0.0, "values": 12}
    assert capsys.readouterr().out == "3 parts, 12 values: the largest difference from the whole is 0\n"


def test_the_largest_difference_is_found_whatever_its_sign() -> None:
    first, right = WHOLE[:, :2].copy(), WHOLE[:, 2:].copy()
    first[0, 0] += 1e-9
    right[2, 1] -= 1e-6
    assert joined([first, right], WHOLE)["largest_difference"] == pytest.approx(1e-6)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(3, 3\); the whole has \(3, 4\)"):
        joined([WHOLE[:, :1], WHOLE[:, 2:]], WHOLE)
    with pytest.raises(ValueError, match="the parts hold a value that is not finite"):
        joined([np.full((3, 4), np.nan)], WHOLE)
