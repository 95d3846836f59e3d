"""Products of matrices, timed."""

from __future__ import annotations

import time

from modules.bench.gemm import gemm


def test_a_product_is_timed_by_its_operations() -> None:
    began = time.perf_counter()
    result = gemm(size=300, seconds=0.05)
    took = time.perf_counter() - began
    assert result["products"] >= 3
    assert result["median_gflops"] <= result["gflops"]
    assert 2e-9 * 300**3 * result["products"] <= result["gflops"] * took
    assert result["residual"] < 1e-12
    assert 1e-12 < gemm(size=300, precision="single", seconds=0.01)["residual"] < 1e-3
