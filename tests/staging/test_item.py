"""Paths that stand for copies until a node is known."""

from __future__ import annotations

from diel.store.artifacts import Artifact
from diel.worker.staging.item import AT_NODE, flat, item_of, placed


def test_the_copies_of_a_node_take_the_place_of_what_stands_for_them() -> None:
    item = item_of("/runs/w-1/tasks/a/0/x y.csv", "digest")
    there = item.below(AT_NODE)
    told = {"path": there, "list": [f"--in={there}", 1], "pair": (there,), "other": "/tmp"}
    copy = item.below("/disk/entries")
    assert placed(told, "/disk/entries") == {
        "path": copy,
        "list": [f"--in={copy}", 1],
        "pair": (copy,),
        "other": "/tmp",
    }


def test_an_artifact_stays_one_with_its_digest() -> None:
    found = placed(Artifact(item_of("/a/x", "d").below(AT_NODE), "d"), "/disk")
    assert (type(found), found.digest) == (Artifact, "d")


def test_the_same_content_under_the_same_name_is_the_same_copy() -> None:
    assert item_of("/one/x", "d").key == item_of("/two/x/", "d").key
    assert len({item_of(path, digest).key for path in ("/a/x", "/a/y") for digest in "de"}) == 4


def test_lists_of_lists_are_one_list() -> None:
    assert flat([["a"], ["b", "c"]]) == ["a", "b", "c"]
    assert flat(["a", ["b"]]) == ["a", ["b"]]
