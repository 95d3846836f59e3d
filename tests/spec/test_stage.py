"""Which shell runs a command that is a text: `shell` of the stage, else of the workflow, else bash."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from diel.workflow.models import Workflow
from diel.workflow.models.stage import reads_quotes


def interpreter(shell: object = None, whole: object = None) -> tuple[str, ...]:
    stage = {"command": "true", **({} if shell is None else {"shell": shell})}
    top = {} if whole is None else {"shell": whole}
    read = Workflow.model_validate(
        {"diel": 1, "name": "w", **top, "stages": {"s": stage, "l": {"command": ["x"]}}}
    )
    assert read.stages["l"].interpreter == ()
    return read.stages["s"].interpreter


def test_bash_that_ends_at_the_first_failure_is_meant_where_nothing_is_said() -> None:
    assert interpreter() == ("bash", "-e", "-o", "pipefail", "-c")
    assert interpreter("sh") == ("/bin/sh", "-e", "-c")


def test_a_stage_beats_its_workflow() -> None:
    assert interpreter(whole="sh") == interpreter("sh")
    assert interpreter("bash", whole="sh") == interpreter()
    assert interpreter(["zsh", "-e", "-c"], whole="sh") == ("zsh", "-e", "-c")


@pytest.mark.parametrize(
    "shell",
    ["fish", "echo hello", [], ["bash"], ["bash", "-c", "x"], [1], 3, {}, [""], ["sh", "${{ n }}", "-c"]],
)
def test_what_starts_no_shell_is_refused(shell: object) -> None:
    with pytest.raises(ValidationError):
        interpreter(shell)


@pytest.mark.parametrize(
    ("words", "reads"),
    [
        (["bash", "-c"], True),
        (["/usr/bin/env", "-i", "A=1", "/bin/dash", "-ec"], True),
        (["busybox", "sh", "-c"], True),
        (["python3", "-c"], False),
        (["fish", "-c"], False),
        (["perl", "-e"], False),
    ],
)
def test_values_are_quoted_for_shells_of_one_family(words: list[str], reads: bool) -> None:
    assert reads_quotes(tuple(words)) is reads
