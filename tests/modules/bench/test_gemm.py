"""Products of matrices, timed."""

from __future__ import annotations

import time

from modules.bench.gemm import gemm


def test_a_product_is_timed_by_its_operations() -> None:
    began = time.perf_counter()
    found = gemm(size=300, seconds=0.05)
    took = time.perf_counter() - began
    assert found["products"] >= 3
    assert found["median_gflops"] <= found["gflops"]
    assert 2e-9 * 300**3 * found["products"] <= found["gflops"] * took
    assert found["residual"] < 1e-12
    assert 1e-12 < gemm(size=300, precision="single", seconds=0.01)["residual"] < 1e-3
