"""Workflows that packages bring are listed in the words of their files, copied whole, and included."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from diel.check import check
from tests.cli.call import call
from tests.throwaway import Project

RELAX = """diel: 1
name: relax
description: Relaxes by shaking.
axes: {strain: {values: [1, 2]}}
stages:
  scf:
    over: [strain]
    files: {pot: pot.dat}
    command: cat ${{ files.pot }} && echo '{"energy":' ${{ strain * 40 }} '}' > "$DIEL_RESULT"
    outputs: {energy: {value: int}}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with a module and a workflow."""
    site = tmp_path / "site"
    for name, text in {
        "shaken/__init__.py": "raise RuntimeError('nobody needs to import this to find its workflows')\n",
        "shaken/tools.py": "import diel\n\n\n@diel.module(kind='simulation')\ndef shake(m: int) -> int:\n    '''Shakes.'''\n    return m\n",
        "shaken_workflows/relax.yaml": "# Relaxes. Needs the extra `search`. Two minutes.\n#\n" + RELAX,
        "shaken_workflows/pot.dat": "packed\n",
        "shaken_workflows/own.yaml": "diel: 1\nname: own\nstages: {a: {module: local, params: {m: 3}}}\n",
        "shaken_workflows/modules/local.py": "import diel\n\n\n@diel.module(kind='analysis')\ndef run(m: int) -> int:\n    return m\n",
        "shaken_workflows/__init__.py": "",
        "shaken-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: shaken\nVersion: 1.0\n",
        "shaken-1.0.dist-info/entry_points.txt": "[diel.workflows]\nshaken = shaken_workflows\n\n"
        "[diel.modules]\nshaken.shake = shaken.tools:shake\n",
    }.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(site))
    return site


def test_workflows_and_modules_come_in_packages(package: Path, tmp_path: Path) -> None:
    (package / "shaken" / "__init__.py").write_text("")
    project = Project(tmp_path / "mine").workflow("include: {r: 'shaken:relax', o: 'shaken:own'}\n")
    listed = project.diel("modules")
    assert re.search(r"shaken\.shake +simulation +shaken +Shakes\.", listed)
    assert "shaken:relax\n    Relaxes by shaking.\n    needs the extra search; two minutes\n" in project.diel(
        "init", "--list"
    )
    run = project.run()
    assert run.values("r.scf", "energy") == [40, 80]
    assert run.values("o.a", "result") == [3]
    shutil.rmtree(package)
    assert "succeeded" in project.diel("status", "last")
    assert "no installed package has workflows as 'shaken'" in project.diel("validate", "flow.yaml", code=2)


def test_one_of_a_package_is_copied_with_its_modules_and_files(package: Path, tmp_path: Path) -> None:
    project = Project(tmp_path / "mine")
    said = project.diel("init", "--from", "shaken:relax", "study")
    assert "It needs the extra search." in said
    assert "cd study && diel run relax.yaml" in said
    study = tmp_path / "mine" / "study"
    assert {path.name for path in study.iterdir()} == {"relax.yaml", "pot.dat", "diel.schema.json"}
    project.diel("init", "--from", "shaken:own", "study")
    assert (study / "modules" / "local.py").is_file()
    project.diel("run", "study/own.yaml")
    (study / "own.yaml").write_text("mine")
    assert "study/own.yaml already exists" in project.diel("init", "--from", "shaken:own", "study", code=2)
    assert "did you mean 'shaken:relax'?" in project.diel("init", "--from", "shaken:relaxx", code=2)


def test_what_ships_is_listed_in_the_words_of_its_files_and_copied_whole(
    root: Path, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = call(capsys, "init", "--list").out.split("\n\n")[:-1]
    names = [one.partition("\n")[0] for one in listed]
    assert names == sorted(path.stem for path in (root / "workflows").glob("*.yaml"))
    pages = (root / "pyproject.toml").read_text().partition("optional-dependencies")[2]
    extras = {*re.findall(r"^(\w+) = \[", pages, re.MULTILINE)}
    for one in listed:
        name, does, needs = one.splitlines()
        assert does.strip(), name
        assert re.fullmatch(r"    needs [^;]+; .*\b(second|minute)s?\b.*", needs), f"{name}: {needs}"
        told = re.search(r"the extras? ([\w, ]+)", needs)
        words = {*re.split(r"\W+", told[1])} if told else set()
        assert "extra" not in needs or words & extras, f"{name}: {needs}"
        assert call(capsys, "init", "--from", name, "copies").code == 0
    for name in names:
        own = next(one for one in listed if one.startswith(f"{name}\n"))
        if "extras ase" in own and find_spec("ase") is None:
            continue  # `validate` looks its functions up
        check(workspace / "copies" / f"{name}.yaml", cwd=workspace)


def test_a_file_that_only_a_parameter_names_comes_with_its_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "init", "--from", "reinforcement", str(tmp_path / "study"))
    modules = tmp_path / "study/modules/simulation"
    assert sorted(path.name for path in modules.iterdir()) == ["kuramoto_sivashinsky.py", "play.py"]
