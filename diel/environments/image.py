"""Images of containers: where they are, and what tells their versions apart."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from diel.artifacts import content
from diel.environments.kept import find_tool
from diel.environments.runtime import PROGRAMS
from diel.errors import UsageError

_QUESTIONS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "podman": lambda image: ("image", "inspect", "--format", "{{.Digest}}", image),
    "podman-hpc": lambda image: ("image", "inspect", "--format", "{{.Digest}}", image),
    "shifter": lambda image: ("lookup", image.removeprefix("docker:")),
}
"""What a runtime is asked, without a network, for the digest of an image that it knows by name."""
_ASKED = {"shifter": "shifterimg"}
PATIENCE = 20.0
"""Seconds that it may take to answer."""


def version_of_image(name: str, image: str, runtime: str, *, here: bool) -> str:
    """What tells the versions of an image apart: the digest of a file's content, of what a directory lists
    (names, sizes and times of its files), or what the runtime says of a name; at worst the name.

    `here` says whether programs run on this machine, so that the image must be here. Raises UsageError
    where it is not.
    """
    if image.startswith("/"):
        if os.path.isdir(image):
            return content(image, "stat")[1]
        try:
            return content(image)[1]
        except OSError as error:
            if not here:
                return image
            raise UsageError(f"environment '{name}': no image {image}: {error.strerror}") from error
    if "@sha256:" in image:
        return image
    for known in [runtime] if runtime else _QUESTIONS:
        program = find_tool(_ASKED.get(known, PROGRAMS[known]))
        if program is not None and known in _QUESTIONS and (told := _answer(program, known, image)):
            return told
    return image


def _answer(program: str, runtime: str, image: str) -> str:
    try:
        done = subprocess.run(
            [program, *_QUESTIONS[runtime](image)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if done.returncode else done.stdout.strip()[:200]
