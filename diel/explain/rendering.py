"""Templates in explanations: which files made for a task differ from those of an earlier run."""

from __future__ import annotations

from collections.abc import Iterator

from diel.tasks.recipe import Recipe


def rendered_changes(new: Recipe, old: Recipe, tasks: tuple[int, int]) -> Iterator[tuple[str, str, str]]:
    """The files made from templates that differ between two tasks: their names, and both texts.

    Raises what a scope raises where something that they read is gone.
    """
    now, then = (recipe.sources.files.rendered for recipe in (new, old))
    if now is None:
        return
    texts = now.texts(new.scope(tasks[0]))
    before = {} if then is None else then.texts(old.scope(tasks[1]))
    for name, made in texts.items():
        was = before.get(name, ("", "", False))
        if made != was:
            yield name, "\n".join(map(str, was)), "\n".join(map(str, made))
