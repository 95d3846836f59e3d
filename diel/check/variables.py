"""Warnings of variables of the shell that commands read by name, and nothing declares."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

from diel.errors import Problem
from diel.load import Document
from diel.spec.variables import read_variables

_SECRET = re.compile("TOKEN|KEY|SECRET|PASS", re.IGNORECASE)
_LONGEST = 60
"""Characters of a value that a warning shows."""


def undeclared_variables(document: Document) -> Iterator[Problem]:
    """Each with the place that reads it, what it is in this shell, and what to write."""
    for stage, one in document.spec.stages.items():
        for name, place in read_variables(document.spec, one).items():
            value = os.environ.get(name)
            if value is None:
                now, text = "not set here, so the command finds none", "VALUE"
            else:
                now, text = "that of this shell, and in the key of each task", json.dumps(value)
            shown = "VALUE" if _SECRET.search(name) or len(text) > _LONGEST else text
            message = f"the command reads ${name}, which nothing declares: it is {now}"
            hint = f"write `env: {{{name}: {shown}}}` in the stage, or set it in its environment"
            yield document.problem(("stages", stage, "command"), message, hint, offset=place or None)
