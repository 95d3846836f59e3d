"""Environments as they are made: Conda and Spack by stand-ins, images by their digests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from diel.base.errors import UsageError
from diel.worker.environments.make import make, stamp
from diel.worker.environments.prepared import PreparedEnvironment, prepared_text, read_prepared
from diel.worker.environments.runtime import version_of_image
from diel.workflow.models import Environment
from diel.workflow.models.environment import Definition
from tests.surrounded import stand_in

MAMBA = """
[ "$1 $2 $3 $5 $6" = "create --yes --prefix --file $FILE" ] || { echo "not: $*" >&2; exit 9; }
mkdir -p "$4/conda-meta" "$4/bin" "$4/etc/conda/activate.d"
echo '{}' >"$4/conda-meta/numpy-1.26.4-py312_0.json"
echo 'export ACTIVATED="$CONDA_PREFIX"' >"$4/etc/conda/activate.d/x.sh"
"""


def made(folder: Path, **keys: Any) -> PreparedEnvironment:
    given = Environment.model_validate(keys).beside(folder)
    return make(
        "it", Definition(given, "the workflow", folder), folder, folder / "kept", lambda _: None, here=True
    )


def after(folder: Path, lines: tuple[str, ...], told: str) -> str:
    """What bash prints after some lines."""
    script = "\n".join([*lines, f'echo "{told}"'])
    done = subprocess.run(["bash", "-c", script], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_conda_makes_an_environment_once_and_its_activation_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "environment.yml"
    file.write_text("dependencies: [numpy]\n")
    stand_in(tmp_path / "bin", "micromamba", MAMBA)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("FILE", str(file))
    first = made(tmp_path, conda="environment.yml")
    assert first.identity["conda"] == {"from": "environment.yml", "packages": ["numpy-1.26.4-py312_0"]}
    prefix, first_on_path = after(tmp_path, first.lines, "$ACTIVATED ${PATH%%:*}").split()
    assert first_on_path == f"{prefix}/bin"
    (tmp_path / "bin" / "micromamba").unlink()
    assert made(tmp_path, conda="environment.yml") == first
    by_prefix = made(tmp_path, conda=prefix)
    assert after(tmp_path, by_prefix.lines, "$ACTIVATED") == prefix
    assert by_prefix.identity["conda"]["packages"] == first.identity["conda"]["packages"]


def test_conda_without_a_tool_or_an_environment_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "environment.yml").write_text("dependencies: [numpy]\n")
    with pytest.raises(UsageError, match="micromamba, mamba, conda: none of them is here"):
        made(tmp_path, conda="environment.yml")
    with pytest.raises(UsageError, match="is no Conda environment"):
        made(tmp_path, conda=".")


@pytest.mark.parametrize(
    ("given", "asked"),
    [(["gromacs@2023 +mpi", "fftw"], "load --sh gromacs@2023 +mpi fftw"), ("chem", "env activate --sh chem")],
)
def test_spack_is_asked_for_what_it_would_set(
    given: Any, asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path / "spack" / "bin", "spack", f'echo "$*" >{tmp_path}/asked; echo "export LOADED=yes;"\n')
    monkeypatch.setenv("SPACK_ROOT", str(tmp_path / "spack"))
    assert after(tmp_path, made(tmp_path, spack=given).lines, "$LOADED") == "yes"
    assert (tmp_path / "asked").read_text().strip() == asked


def test_keys_come_in_one_order_whatever_the_file_says(tmp_path: Path) -> None:
    lines = made(tmp_path, setup=["export A=1"], modules=["gcc/13", "openmpi"], spack=["fftw"]).lines
    assert lines[1:4] == ("module load gcc/13", "module load openmpi", "export A=1")
    assert "spack load --sh fftw" in lines[-1]


def test_an_image_is_told_apart_by_its_content_its_listing_or_what_its_runtime_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(image: str, runtime: str = "", *, here: bool = True) -> str:
        return version_of_image("it", image, runtime, here=here)

    sif = tmp_path / "tools.sif"
    sif.write_text("one")
    first = version(str(sif))
    sif.write_text("two")
    assert version(str(sif)) != first
    (tmp_path / "image" / "bin").mkdir(parents=True)
    listed = version(str(tmp_path / "image"))
    (tmp_path / "image" / "bin" / "sh").write_text("")
    assert version(str(tmp_path / "image")) != listed
    stand_in(
        tmp_path, "podman", '[ "$*" = "image inspect --format {{.Digest}} tools:1" ] && echo sha256:abc\n'
    )
    stand_in(tmp_path, "shifterimg", '[ "$*" = "lookup tools:2" ] && echo 0123\n')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert version("tools:1", "podman") == "sha256:abc"
    assert version("docker:tools:2", "shifter") == "0123"
    assert version("tools:3", "podman") == "tools:3", "nobody knows it"
    with pytest.raises(UsageError, match="no image"):
        version("/nowhere.sif")
    assert version("/nowhere.sif", here=False) == "/nowhere.sif", "the nodes may have it"


def test_what_is_written_for_a_run_is_read_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    one = made(tmp_path, setup=["export A='b c'"], variables={"B": 1}, modules=["gcc"])
    (tmp_path / "environments.json").write_text(prepared_text({"it": one}))
    assert read_prepared(tmp_path / "environments.json") == {"it": one}
    assert read_prepared(tmp_path / "nothing.json") == {}


def test_a_container_cannot_see_a_path_with_a_colon(tmp_path: Path) -> None:
    folder = tmp_path / "a:b"
    folder.mkdir()
    with pytest.raises(UsageError, match="cannot see a path with a colon"):
        made(folder, container="docker://x")


def test_what_an_environment_is_made_of_is_seen_to_change_without_a_tool(tmp_path: Path) -> None:
    def told(**keys: Any) -> str | None:
        return stamp(Environment.model_validate(keys).beside(tmp_path))

    wheel, site = tmp_path / "own.whl", tmp_path / "mamba/lib/python3.12/site-packages"
    (tmp_path / "more.txt").write_text("./own.whl\n")
    (tmp_path / "requirements.txt").write_text("numpy\n-r more.txt\n")
    wheel.write_text("one")
    (tmp_path / "mamba/conda-meta").mkdir(parents=True)
    seen = {told(python="requirements.txt"), told(conda="mamba"), told(setup=["umask 0"]), told()}
    wheel.write_text("two")
    for name, tool in {"by_pip-1.0.dist-info": "pip", "by_conda-1.0.dist-info": "conda"}.items():
        (site / name).mkdir(parents=True)
        (site / name / "INSTALLER").write_text(f"{tool}\n")
    now = {told(python="requirements.txt"), told(conda="mamba"), told(setup=["umask 7"])}
    assert len(seen | now) == 7
    assert made(tmp_path, conda="mamba").identity["conda"]["packages"] == ["by_pip==1.0"]
    (tmp_path / "more.txt").unlink()
    assert told(python="requirements.txt") is None
