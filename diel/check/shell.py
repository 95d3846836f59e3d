"""Checks of commands that are texts: their shell is there, and values can be put into them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from diel.check.flaws import Check
from diel.errors import Problem
from diel.expressions import ExpressionError, parse
from diel.load import Document
from diel.site import Site
from diel.spec import Stage
from diel.spec.shell import reads_quotes


def check_shell(found: Check, name: str, stage: Stage) -> None:
    """Every value in a text stands where it can be quoted."""
    if not isinstance(stage.command, str):
        return
    key = ("stages", name, "command")
    try:
        template = parse(stage.command)
    except ExpressionError:
        return  # told where names are looked up
    if not template.constant and not reads_quotes(stage.interpreter):
        message = f"a value cannot be quoted for {stage.interpreter[0]}, which is no POSIX shell"
        hint = "read it from the files DIEL_PARAMS and DIEL_INPUTS, or write the command as a list of words"
        found.add(key, message, hint, template.expressions[0].offset)
        return
    try:
        template.check_shell()
    except ExpressionError as error:
        found.add(key, error.message, error.hint, error.offset)


def missing_shells(document: Document, site: Site) -> Iterator[Problem]:
    """Shells of commands that are not on this machine, where it is the one that runs them."""
    if site.scheduled:
        return  # a node's shell is found by the node
    for name, stage in document.spec.stages.items():
        if stage.interpreter and "PATH" not in stage.env and shutil.which(stage.interpreter[0]) is None:
            message = f"the shell '{stage.interpreter[0]}' is not on this machine"
            hint = "install it, or write `shell: sh`, in which a pipe's status is its last program's"
            yield document.problem(("stages", name, "command"), message, hint)
