"""The words of each runtime, as its manual documents them, held against stand-ins that write down theirs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from diel.worker.environments import runtime
from diel.worker.environments.prepared import PreparedContainer
from diel.worker.environments.runtime import NoContainer, find_runtime, start_words
from tests.surrounded import stand_in

WORD = 'a "b" $c'
HOST = ["--network=host", "--ipc=host", "--pid=host", "--env-host", "--entrypoint="]
EXPECTED = {
    "apptainer": [
        "exec",
        "--nv",
        "--bind",
        "/runs",
        "--bind",
        "/a:/b:ro",
        "--pwd",
        "/runs/t",
        "/i/tools.sif",
    ],
    "podman": [
        *["run", "--rm", *HOST, "--device=nvidia.com/gpu=all", "--volume=/tmp:/tmp", "--volume=/runs:/runs"],
        *["--volume=/a:/b:ro", f"--env=W={WORD}", "--workdir=/runs/t", "tools:1"],
    ],
    "podman-hpc": [
        *["run", "--rm", *HOST, "--gpu", "--volume=/tmp:/tmp", "--volume=/runs:/runs"],
        *["--volume=/a:/b:ro", f"--env=W={WORD}", "--workdir=/runs/t", "tools:1"],
    ],
    "shifter": [
        *["--image=tools:1", "--module=gpu", "--volume=/runs:/runs", "--volume=/a:/b:ro"],
        *[f"--env=W={WORD}", "--workdir=/runs/t"],
    ],
}
EXPECTED["singularity"] = EXPECTED["apptainer"]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_program_is_started_as_the_manual_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, name, f"printf '%s\\n' \"$@\" >{tmp_path}/said\n")
    monkeypatch.setattr(runtime, "_NVIDIA", "/dev/null")
    image = "/i/tools.sif" if name in ("apptainer", "singularity") else "tools:1"
    contained = PreparedContainer(image, name, ("$WHERE:/b:ro",))
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "WHERE": "/a"}
    words = start_words(contained, "/runs/t", ["/runs", "/runs"], env, {"W": WORD})
    subprocess.run([*words, "prog", "two words"], check=True)
    assert (tmp_path / "said").read_text().splitlines() == [*EXPECTED[name], "prog", "two words"]
    if name in ("apptainer", "singularity"):
        assert words[:2] == ("env", f"{name.upper()}ENV_W={WORD}")


def test_amd_devices_are_passed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, "apptainer", "")
    monkeypatch.setattr(runtime, "_AMD", "/dev/null")
    words = start_words(PreparedContainer("/i.sif"), "/t", [], {"PATH": str(tmp_path)}, {})
    assert words[1:3] == ("exec", "--rocm")


def test_the_runtime_is_the_first_that_is_here_and_fits_the_image(tmp_path: Path) -> None:
    for name in ("singularity", "ch-run", "podman"):
        stand_in(tmp_path, name, "")
    (tmp_path / "image").mkdir()
    path = str(tmp_path)
    assert find_runtime(PreparedContainer("/x.sif"), path)[0] == "singularity"
    assert find_runtime(PreparedContainer(str(tmp_path / "image")), path)[0] == "charliecloud"
    assert find_runtime(PreparedContainer("docker://ubuntu"), path)[0] == "singularity"
    assert find_runtime(PreparedContainer("ubuntu:24.04"), path)[0] == "podman"
    with pytest.raises(NoContainer, match="looked for apptainer on PATH"):
        find_runtime(PreparedContainer("/x.sif", "apptainer"), path)


def test_a_directory_that_an_image_of_charliecloud_lacks_is_mounted_by_one_above_it_or_told(
    tmp_path: Path,
) -> None:
    stand_in(tmp_path, "ch-run", "")
    image = tmp_path / "image"
    for place in ("lab", "full/of", "data"):
        (image / place).mkdir(parents=True)
    contained, env = PreparedContainer(str(image), "charliecloud"), {"PATH": str(tmp_path)}

    def binds(*places: str) -> list[str]:
        words = start_words(contained, "/tmp/t", places, env, {"W": WORD})
        assert f"--set-env=W={WORD}" in words
        assert words[-3:] == ("--cd=/tmp/t", str(image), "--")
        return [word for word in words if word.startswith("--bind")]

    assert binds("/tmp/x", "/data", "/lab/a/b", "/lab/a/c") == ["--bind=/data:/data", "--bind=/lab:/lab"]
    with pytest.raises(NoContainer, match="no directory /full/x to mount on: mkdir -p"):
        binds("/full/x")


def test_a_mount_whose_variable_is_not_set_is_told(tmp_path: Path) -> None:
    stand_in(tmp_path, "apptainer", "")
    contained = PreparedContainer("/i.sif", mounts=("$NOWHERE_AT_ALL/x",))
    with pytest.raises(NoContainer, match="names a variable that is not set"):
        start_words(contained, "/t", [], {"PATH": str(tmp_path)}, {})
