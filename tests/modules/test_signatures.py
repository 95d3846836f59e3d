"""What `diel validate` can read of the shipped modules without importing them."""

from __future__ import annotations

from pathlib import Path

from diel.modules.catalogue import Module, every, find


def test_every_shipped_module_can_be_read_and_says_what_it_returns(root: Path) -> None:
    listing = list(every([root / "modules"]))
    assert [item for item in listing if not isinstance(item, Module)] == []
    modules = {item.reference: item for item in listing if isinstance(item, Module)}
    assert set(modules) >= {
        "analysis.kaufman",
        "analysis.surrogate_report",
        "inference.screen",
        "inference.screen:merge",
        "inference.screen:predict",
        "simulation.ising",
        "simulation.lammps_melt",
        "training.mlp",
    }
    for module in modules.values():
        assert module.signature.doc, module.reference
        assert module.signature.returns is not None, module.reference  # a service returns nothing


def test_the_bounds_of_the_ising_model_are_known_before_it_runs(root: Path) -> None:
    signature = find("simulation.ising", [root / "modules"]).signature
    assert [p.name for p in signature.parameters if p.injected] == ["context", "comm"]
    assert signature.artifacts == {"configuration"}
    problems = signature.check({"temperature": -1.0, "algorithm": "glauber", "size": 2}, deferred=())
    messages = {name: message for name, message, _ in problems}
    assert "more than 0" in messages["temperature"]
    assert "'metropolis' or 'wolff'" in messages["algorithm"]
    assert "at least 4" in messages["size"]


def test_the_ranges_of_a_screen_are_pairs(root: Path) -> None:
    signature = find("inference.screen", [root / "modules"]).signature
    assert signature.artifacts == {"summary"}
    problems = signature.check({"ranges": {"x": [0.0]}, "points": 0}, deferred=("model",))
    assert {name for name, _, _ in problems} == {"ranges", "points"}
