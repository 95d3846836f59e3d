"""Where stages stand: by depth, with room for the edges that pass."""

from __future__ import annotations

from diel.page.layout import Spot, lay_out


def test_stages_stand_by_their_depth_and_edges_pass_between() -> None:
    edges = [("a", "b"), ("b", "c"), ("a", "c")]
    found = lay_out({"a": 0, "b": 1, "c": 2}, edges)
    assert [found.stages[name].layer for name in "abc"] == [0, 1, 2]
    assert [place.layer for place in found.edges[("a", "c")]] == [0, 1, 2]
    assert found.edges[("a", "c")][1].row != found.stages["b"].row
    assert (found.layers, found.rows) == (3, 2.0)


def test_neighbours_are_put_beside_each_other_so_that_lines_do_not_cross() -> None:
    found = lay_out({"a": 0, "b": 0, "x": 1, "y": 1}, [("a", "y"), ("b", "x")])
    rows = {name: place.row for name, place in found.stages.items()}
    assert (rows["a"] < rows["b"]) == (rows["y"] < rows["x"])


def test_no_stage_and_one_stage_have_a_layout_too() -> None:
    assert lay_out({}, []).layers == 0
    assert lay_out({"a": 0}, []).stages == {"a": Spot(0, 0)}
