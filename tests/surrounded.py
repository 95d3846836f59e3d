"""What tests of environments need: wheels without a network, the image of a container, a module of Lmod's."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import zipfile
from pathlib import Path

import pytest

from diel.worker.environments.kept import find_tool

LMOD = Path("/usr/share/lmod/lmod/init/bash")
needs_uv = pytest.mark.skipif(find_tool("uv") is None, reason="uv is not here: pip install 'diel[uv]'")
needs_lmod = pytest.mark.skipif(not LMOD.is_file(), reason="Debian's lmod is not here")
needs_box = pytest.mark.skipif(
    shutil.which("ch-run") is None or not Path("/bin/busybox").is_file(),
    reason="Debian's charliecloud and busybox-static are not here",
)


def wheel(folder: Path, version: str, text: str = "") -> None:
    """A package `tiny` with a program `tiny`, which says its version and where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"tiny-{version}.dist-info"
    code = f"import sys\nVERSION = '{version}'\ndef main(): print(VERSION, sys.prefix)\n"
    code += f"def scaled(x, by={version}): return x * by\n{text}"
    files = {
        "tiny.py": code,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: diel\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ntiny = tiny:main\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(folder / f"tiny-{version}-py3-none-any.whl", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def requirements(folder: Path, *wanted: str) -> None:
    """A file of requirements that are met by two wheels beside it."""
    for version in ("1.0", "2.0"):
        wheel(folder / "wheels", version)
    lines = ["--no-index", "--find-links wheels", *wanted]
    (folder / "requirements.txt").write_text("\n".join(lines) + "\n")


def image(folder: Path, *places: str) -> Path:
    """A directory that Charliecloud runs: busybox, and the directories that are mounted on."""
    made = folder / "image"
    for place in (
        "bin",
        "etc",
        "proc",
        "sys",
        "dev",
        "tmp",
        "usr/bin",
        "home",
        "root",
        "mnt",
        "run",
        *places,
    ):
        (made / place).mkdir(parents=True, exist_ok=True)
    shutil.copy("/bin/busybox", made / "bin" / "busybox")
    for program in ("sh", "cat", "ls", "pwd", "touch", "env", "id", "echo", "true"):
        (made / "bin" / program).symlink_to("busybox")
    for name in ("passwd", "group", "hosts", "resolv.conf"):
        (made / "etc" / name).touch()
    return made


def stand_in(folder: Path, name: str, text: str) -> Path:
    """A program in a folder that plays another one: a script of the shell."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


def on_path(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Puts a folder in front of PATH, behind the programs of this Python."""
    own = os.path.dirname(sys.executable)
    monkeypatch.setenv("PATH", f"{own}:{folder}:{os.environ['PATH']}")
