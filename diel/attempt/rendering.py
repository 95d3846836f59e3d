"""Writes the files that were made for a task from templates into its directory."""

from __future__ import annotations

import os
from collections.abc import Iterable

from diel.attempt.bundle import AT_LAUNCHER, LAUNCHER, Failure, Rendered
from diel.attempt.state import mode_mask
from diel.states import FailureClass


def write_rendered(rendered: Iterable[Rendered], task_dir: str) -> None:
    """Writes them, and the directories above. Raises OSError; Failure where one is in another's way."""
    for path, text, executable in rendered:
        whole = f"{task_dir}/{path}"
        try:
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, "wb") as file:
                text = text.replace(AT_LAUNCHER, f"{task_dir}/{LAUNCHER}")
                file.write(text.encode("utf-8", "surrogateescape"))
            if executable:
                os.chmod(whole, 0o777 & ~mode_mask())
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            message = f"'{path}' cannot be written: another file of the task is where it should be"
            raise Failure(FailureClass.LAUNCH, message) from error
