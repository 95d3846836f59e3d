"""`diel init`, `diel schema` and `diel completion`: the scripts are tried with the shells."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest
import yaml

from diel.cli.commands.setup import STARTER
from diel.planning.check import check
from diel.workflow.schema import schema
from tests.cli.call import call
from tests.throwaway import Project, Run
from tests.written import Written

Capture = pytest.CaptureFixture[str]


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_the_starter_runs_as_it_is_and_agrees_with_theory(tmp_path: Path) -> None:
    Project(tmp_path).diel("init", "study")
    study = Project(tmp_path / "study", "workflow")
    study.diel("validate", "workflow.yaml")
    study.diel("run", "workflow.yaml")
    run = study.folder / "runs" / "pendulum-1"
    assert "theory says 0.0625" in (run / "tasks/report/0/report.txt").read_text()
    status = json.loads(study.diel("status", "--json"))
    assert status["tasks"]["done"] == status["tasks"]["total"] == 14
    (fit,) = Run(run).results("fit").values()
    assert fit["values"]["coefficient"] == pytest.approx(1 / 16, rel=0.01)


def test_it_copies_all_files_and_says_what_to_type(workspace: Path, capsys: Capture) -> None:
    said = call(capsys, "init", "my study")
    assert said.code == 0
    assert said.out.rstrip().endswith("cd 'my study' && diel run workflow.yaml")
    made, shipped = files(workspace / "my study"), files(STARTER)
    assert json.loads(made.pop("diel.schema.json")) == schema()
    assert made.pop("workflow.yaml").endswith(shipped.pop("workflow.yaml"))
    assert made == shipped


def test_an_editor_finds_the_schema_of_a_workflow_and_the_workflow_fits_it(
    workspace: Path, capsys: Capture
) -> None:
    call(capsys, "init", "study")
    call(capsys, "init", "--from", "corresponding_states", "study")
    for name in ("workflow.yaml", "corresponding_states.yaml", "relax.yaml"):
        text = (workspace / "study" / name).read_text()
        named = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", text.partition("\n")[0])
        assert named is not None, name
        checked = json.loads((workspace / "study" / named[1]).read_text())
        jsonschema.validate(yaml.safe_load(text), checked)
        with pytest.raises(jsonschema.ValidationError, match="'axis' was unexpected"):
            jsonschema.validate(yaml.safe_load(text.replace("axes:", "axis:", 1)), checked)


def test_it_may_be_said_again_and_keeps_a_schema_that_is_there(workspace: Path, capsys: Capture) -> None:
    call(capsys, "init")
    Path("diel.schema.json").write_text("mine")
    assert call(capsys, "init").code == 0
    assert Path("diel.schema.json").read_text() == "mine"
    assert Path("workflow.yaml").read_text().count("yaml-language-server") == 1


def test_here_is_where_it_is_made_without_a_name(workspace: Path, capsys: Capture) -> None:
    assert call(capsys, "init").out.rstrip().endswith("Now: diel run workflow.yaml")
    assert (workspace / "workflow.yaml").exists()


def test_nothing_is_overwritten_and_nothing_half_made(workspace: Path, capsys: Capture) -> None:
    (workspace / "study").mkdir()
    (workspace / "study" / "workflow.yaml").write_text("mine")
    said = call(capsys, "init", "study")
    assert said.code == 2
    assert "study/workflow.yaml already exists" in said.err
    assert files(workspace / "study") == {"workflow.yaml": b"mine"}


def test_a_directory_that_cannot_be_made_is_told(workspace: Path, capsys: Capture) -> None:
    (workspace / "file").touch()
    said = call(capsys, "init", "file/study")
    assert said.code == 2
    assert "file/study" in said.err


def test_the_schema_is_printed_as_json(capsys: Capture) -> None:
    assert json.loads(call(capsys, "schema").out) == schema()


def test_a_file_gets_it_and_the_user_the_line_for_the_editor(workspace: Path, capsys: Capture) -> None:
    said = call(capsys, "schema", "-o", "s.json")
    assert (said.code, said.out) == (0, "")
    assert "# yaml-language-server: $schema=s.json" in said.err
    assert json.loads(Path("s.json").read_text("utf-8")) == schema()


def test_a_place_that_cannot_be_written_is_told(workspace: Path, capsys: Capture) -> None:
    said = call(capsys, "schema", "-o", "no/where.json")
    assert (said.code, "cannot write no/where.json" in said.err) == (1, True)


@pytest.fixture
def env(workspace: Path, root: Path) -> dict[str, str]:
    """An environment with a `diel` on PATH, and runs to be completed."""
    Written(workspace / "runs", "melt-1").end("succeeded")
    Written(workspace / "runs", "melt-2").end("succeeded")
    Written(workspace / "runs", "ising-1").end("succeeded")
    script = workspace / "bin" / "diel"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nPYTHONPATH={root} exec {sys.executable} -m diel "$@"\n')
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{script.parent}:{os.environ['PATH']}"}


def bash(env: dict[str, str], *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    code = """
        eval "$(diel completion bash)"
        complete -p diel | grep -q _diel_completion || exit 9
        COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMPREPLY=()
        _diel_completion diel
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "-c", code, "bash", *words], env=env, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands(env: dict[str, str]) -> None:
    assert bash(env, "diel", "sta") == ["status"]
    assert {"init", "run", "completion"} <= set(bash(env, "diel", ""))


@pytest.mark.parametrize("command", ["status", "logs", "cancel", "clean", "resume"])
def test_bash_completes_runs(env: dict[str, str], command: str) -> None:
    assert bash(env, "diel", command, "me") == ["melt-1", "melt-2"]


def test_bash_completes_runs_of_another_directory_and_options(env: dict[str, str], workspace: Path) -> None:
    Written(workspace / "others", "melt-7").end("succeeded")
    assert bash(env, "diel", "status", "--runs", "others", "me") == ["melt-7"]
    assert "--exit-code" in bash(env, "diel", "status", "--e")


def test_bash_completes_the_stages_of_a_run(env: dict[str, str], workspace: Path) -> None:
    assert bash(env, "diel", "status", "melt-1", "l") == ["late"]
    assert bash(env, "diel", "logs", "melt-1", "a/") == ["a/0", "a/1", "a/2", "a/3"]
    assert bash(env, "diel", "cancel", "melt-1", "b") == ["b"]
    assert bash(env, "diel", "logs", "nope-1", "l") == []


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("zsh", {"COMP_WORDS": "diel sta", "COMP_CWORD": "1"}),
        ("fish", {"COMP_WORDS": "diel sta", "COMP_CWORD": "sta"}),
    ],
)
def test_the_protocol_of_other_shells_is_answered(
    env: dict[str, str], capsys: Capture, shell: str, words: dict[str, str]
) -> None:
    script = call(capsys, "completion", shell).out
    assert f"_DIEL_COMPLETE={shell}_complete" in script
    done = subprocess.run(
        ["diel"],
        env={**env, **words, "_DIEL_COMPLETE": f"{shell}_complete"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "status" in done.stdout
    assert "Show the state of a run" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_can_read(env: dict[str, str], capsys: Capture, shell: str) -> None:
    script = call(capsys, "completion", shell).out
    assert script.startswith("# ")
    assert f"diel completion {shell}" in script.splitlines()[0]
    program = shutil.which(shell)
    if program is None:
        return  # bash is always here; what the others read is the library's own script
    subprocess.run([program, "-n"], input=script, text=True, check=True)


def test_an_unknown_shell_is_refused_with_those_known(capsys: Capture) -> None:
    said = call(capsys, "completion", "tcsh")
    assert said.code == 2
    assert "bash" in said.err


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
