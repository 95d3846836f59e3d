"""The house around the code: what is packaged, pinned, imported and promised in the documents."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tokenize
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import diel

SHIPPED = ("workflows", "modules", "schedulers")
SOURCES = ("diel", *SHIPPED, "tests", "docs", ".ci")
HEAVY = {"parsl", "numpy", "scipy", "sklearn", "pandas", "pyarrow", "torch", "optuna", "mpi4py", "rich"}


def files_of(root: Path, *tops: str) -> list[Path]:
    """The files below these directories, without caches and what a run leaves behind."""
    skipped = {"__pycache__", "runs"}
    return sorted(
        path
        for top in tops
        for path in (root / top).rglob("*")
        if path.is_file() and not skipped & set(path.relative_to(root).parts)
    )


def python_files(root: Path, *tops: str) -> list[Path]:
    return [path for path in files_of(root, *tops) if path.suffix == ".py"]


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Dotted names of everything that is imported anywhere in the tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def clean_env(**extra: str) -> dict[str, str]:
    """The environment without what an outer `make` hands to an inner one."""
    outer = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"}
    return {name: value for name, value in os.environ.items() if name not in outer} | extra


def python(code: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, **options
    )


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def pins(root: Path) -> dict[str, str]:
    """Version by name, as `constraints.txt` has it."""
    lines = [line for line in (root / "constraints.txt").read_text("utf-8").splitlines() if line[:1] != "#"]
    pairs = [line.partition("==") for line in lines]
    return {canonicalize_name(name): version for name, _, version in pairs}


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the checkout, built without a network."""
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)],
        cwd=root,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (path,) = target.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as it lies in somebody's site-packages."""
    target = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


# --- dependencies --------------------------------------------------------------------------------


def requirements(project: dict[str, Any]) -> list[Requirement]:
    """Every requirement on another project: core, extras and build."""
    groups = [
        project["project"]["dependencies"],
        project["build-system"]["requires"],
        *project["project"]["optional-dependencies"].values(),
    ]
    texts = [text for group in groups for text in group]
    return [required for required in map(Requirement, texts) if required.name != "diel"]


def test_the_constraints_pin_every_dependency_inside_its_range(
    project: dict[str, Any], pins: dict[str, str]
) -> None:
    for required in requirements(project):
        pinned = pins.get(canonicalize_name(required.name))
        assert pinned is not None, f"{required.name} has no pin; run `make constraints`"
        assert required.specifier.contains(pinned), f"{required} does not allow the pinned {pinned}"


def test_every_dependency_has_a_tested_lower_bound_and_keeps_out_the_next_major(
    project: dict[str, Any],
) -> None:
    for required in requirements(project):
        operators = sorted(part.operator for part in required.specifier)
        assert operators == ["<", ">="], f"{required}: expected `>=TESTED,<NEXT`"


def test_the_constraints_are_exact_versions_only(root: Path) -> None:
    lines = (root / "constraints.txt").read_text("utf-8").splitlines()
    odd = [line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[A-Za-z0-9.+!-]+", line)]
    assert odd == []


def test_the_constraints_pin_all_that_the_dependencies_bring_along(
    project: dict[str, Any], pins: dict[str, str]
) -> None:
    """Without these pins, tomorrow's install is not today's."""
    loose: set[str] = set()
    seen: set[str] = set()
    todo = [required.name for required in requirements(project)]
    while todo:
        name = canonicalize_name(todo.pop())
        if name in seen:
            continue
        seen.add(name)
        if name not in pins:
            loose.add(name)
        try:
            needs = [Requirement(text) for text in metadata.requires(name) or []]
        except metadata.PackageNotFoundError:  # an extra that is not installed here
            continue
        todo += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    assert loose == set()
    assert "pydantic-core" in seen


# --- packaging -----------------------------------------------------------------------------------


@pytest.mark.parametrize("top", SHIPPED)
def test_the_wheel_carries_all_that_diel_ships(root: Path, wheel: Path, top: str) -> None:
    expected = {f"diel/_shipped/{path.relative_to(root).as_posix()}" for path in files_of(root, top)}
    with zipfile.ZipFile(wheel) as archive:
        carried = {name for name in archive.namelist() if name.startswith(f"diel/_shipped/{top}/")}
    assert carried == expected
    assert expected, f"{top}/ is empty"


def test_the_wheel_holds_nothing_but_diel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"diel", f"diel-{diel.__version__}.dist-info"}
    assert "diel/py.typed" in names
    assert not [name for name in names if "__pycache__" in name]


def test_an_installed_wheel_finds_its_own_modules_and_workflows(unpacked: Path, workspace: Path) -> None:
    hello = unpacked / "diel" / "_shipped" / "workflows" / "hello.yaml"
    copied = ["init", "--from", "tune", "study"], ["validate", "study/tune.yaml"]
    for arguments in (["modules"], ["validate", str(hello)], ["init", "--list"], *copied):
        result = python(
            f"from diel.cli import main; main({arguments!r})",
            cwd=workspace,
            env=clean_env(PYTHONPATH=str(unpacked)),
        )
        assert result.returncode == 0, result.stderr + result.stdout
        if arguments == ["modules"]:
            assert "simulation.ising" in result.stdout
        assert arguments != ["init", "--list"] or "\ntune\n" in result.stdout
    assert (workspace / "study" / "modules" / "simulation" / "ising.py").is_file()


def test_the_version_has_its_place_in_the_changelog(root: Path) -> None:
    assert f"## [{diel.__version__}]" in (root / "CHANGELOG.md").read_text("utf-8")


def test_the_licence_is_the_apache_licence(root: Path, project: dict[str, Any]) -> None:
    text = (root / "LICENSE").read_text("utf-8")
    assert project["project"]["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


# --- imports -------------------------------------------------------------------------------------


def test_one_file_imports_parsl(root: Path) -> None:
    importers = {
        path.relative_to(root).as_posix()
        for path in python_files(root, "diel", "modules")
        if any(name.split(".")[0] == "parsl" for name in imports_of(ast.parse(path.read_bytes())))
    }
    assert importers == {"diel/backends/executors/parsl.py"}


def test_modules_import_only_the_public_names_of_diel(root: Path) -> None:
    # `from diel import pytorch` and `tabular` stand alone: `from diel import *` must need neither PyTorch nor numpy
    public = {"diel", "diel.pytorch", "diel.ml.pytorch.parallel", "diel.tabular"} | {
        f"diel.{name}" for name in diel.__all__
    }
    offences = {
        (path.relative_to(root).as_posix(), name)
        for path in python_files(root, "modules")
        for name in imports_of(ast.parse(path.read_bytes()))
        if name.split(".")[0] == "diel" and name not in public
    }
    assert offences == set()


def test_a_function_local_import_says_why(root: Path) -> None:
    """A comment on its lines, or on the line above the imports that it stands with."""
    silent = []
    for path in python_files(root, "diel"):
        tree = ast.parse(path.read_bytes())
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        local = {
            node.lineno: node.end_lineno or node.lineno
            for function in functions
            for node in ast.walk(function)
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        if not local:
            continue
        with tokenize.open(path) as file:
            commented = {
                token.start[0]
                for token in tokenize.generate_tokens(file.readline)
                if token.type == tokenize.COMMENT
            }
        for first in sorted(local):
            # Imports that follow one another share the comment of the first.
            above = first - 1
            explained = bool(commented & set(range(above, local[first] + 1)))
            explained |= any(end == above and commented & {begin - 1, begin} for begin, end in local.items())
            if not explained:
                silent.append(f"{path.relative_to(root)}:{first}")
    assert silent == []


LOADED = """
import json, sys
from diel.cli import main
try:
    main({arguments!r})
except SystemExit as end:
    assert not end.code, end.code
loaded = sorted({{name.partition(".")[0] for name in sys.modules}})
print(json.dumps(loaded), file=sys.stderr)
"""


def loaded_by(arguments: list[str], cwd: Path, root: Path) -> set[str]:
    """Top-level packages in memory after a command of diel."""
    code = LOADED.format(arguments=arguments)
    result = python(code, cwd=cwd, env=clean_env(PYTHONPATH=str(root)))
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stderr.splitlines()[-1]))


def test_asking_for_the_version_loads_next_to_nothing(root: Path, workspace: Path) -> None:
    loaded = loaded_by(["--version"], workspace, root)
    assert loaded & (HEAVY | {"pydantic", "yaml", "psutil", "simpleeval"}) == set()


def test_commands_of_every_day_do_without_networkx(root: Path, workspace: Path) -> None:
    flow = workspace / "w.yaml"
    flow.write_text(
        "diel: 1\nname: w\nstages: {a: {command: ['true']}, b: {command: ['true'], after: [a]}}\n"
    )
    for arguments in (["validate", "w.yaml"], ["run", "--quiet", "w.yaml"], ["status"], ["graph", "w.yaml"]):
        assert "networkx" not in loaded_by(arguments, workspace, root)
    assert "networkx" in loaded_by(["graph", "w.yaml", "--format", "json"], workspace, root)


def test_no_command_writes_a_journal(root: Path) -> None:
    writers = {
        "diel.store.journal.segment.SegmentWriter",
        "diel.tasks.ledger.Ledger",
        "diel.store.project.lease.take",
    }
    found = [
        path.relative_to(root).as_posix()
        for path in python_files(root, "diel/cli")
        if writers & set(imports_of(ast.parse(path.read_bytes())))
    ]
    assert found == []


def test_one_file_puts_files_in_place(root: Path) -> None:
    """The probe runs on nodes without diel, and the doctor tries what file systems can do."""
    apart = {"diel/base/files.py", "diel/doctor/probe.py", "diel/doctor/machine.py"}
    found = {
        path.relative_to(root).as_posix()
        for path in python_files(root, "diel")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "replace"
        if ast.unparse(node.func.value) == "os" or (len(node.args) == 1 and not node.keywords)
    }
    assert found <= apart


# --- documents -----------------------------------------------------------------------------------


def documents(root: Path) -> list[Path]:
    return [*sorted(root.glob("*.md")), *[p for p in files_of(root, "docs") if p.suffix == ".md"]]


def test_every_link_of_the_documents_leads_somewhere(root: Path) -> None:
    broken = [
        f"{page.relative_to(root)}: {target}"
        for page in documents(root)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_make_target_of_the_documents_exists(root: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {
        target
        for page in documents(root)
        for target in re.findall(r"(?:^    |`)make ([a-z]+)", page.read_text("utf-8"), re.MULTILINE)
    }
    assert {"demo", "test"} <= named <= targets


def test_the_workflow_of_the_readme_runs_as_it_stands(root: Path, workspace: Path) -> None:
    text = re.search(r"```yaml\n(.*?)```", (root / "README.md").read_text("utf-8"), re.DOTALL)
    assert text is not None
    (workspace / "dice.yaml").write_text(text[1], "utf-8")
    for arguments in (["run", "dice.yaml"], ["results", "last", "mean.mean", "--json"]):
        result = python(
            f"from diel.cli import main; main({arguments!r})",
            cwd=workspace,
            env=clean_env(PYTHONPATH=str(root)),
        )
        assert result.returncode == 0, result.stderr + result.stdout
    means = re.findall(r"\d+\.\d+", result.stdout)
    assert len(means) == 3, result.stdout


def test_no_file_names_somebodys_home(root: Path) -> None:
    home = re.compile("/(?:" + "|".join(["home", "Users", "ro" + "ot"]) + r")/[a-z]")
    files = [*files_of(root, *SOURCES), *[p for p in root.iterdir() if p.is_file() and p.suffix != ""]]
    found = [
        f"{path.relative_to(root)}: {match[0]}"
        for path in [*files, root / "Makefile"]
        if (match := home.search(path.read_bytes().decode("utf-8", "replace")))
    ]
    assert found == []


# --- make ----------------------------------------------------------------------------------------


def make(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=root,
        env=clean_env(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_make_alone_lists_the_targets(root: Path) -> None:
    result = make(root)
    assert result.returncode == 0
    assert re.search(r"^  demo  +\S", result.stdout, re.MULTILINE)
    assert re.search(r"^  test  +\S", result.stdout, re.MULTILINE)


PYTHONS = {
    "absent": (None, "was not found", "python3-venv"),
    "old": ("#!/bin/sh\n[ $1 = --version ] && echo Python 3.9.2\nexit 1\n", "Python 3.9.2", "PYTHON=/"),
    "without venv": (
        '#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\nexit 0\n',
        "cannot make virtual environments",
        "apt-get install python3-venv",
    ),
}


@pytest.mark.parametrize("case", PYTHONS)
def test_a_python_that_will_not_do_is_refused_with_the_way_out(root: Path, tmp_path: Path, case: str) -> None:
    script, said, way_out = PYTHONS[case]
    fake = tmp_path / "python"
    if script:
        fake.write_text(script)
        fake.chmod(0o755)
    result = make(root, "demo", f"PYTHON={fake}", f"VENV={tmp_path / 'venv'}")
    assert result.returncode == 2
    assert said in result.stdout
    assert way_out in result.stdout
    assert not (tmp_path / "venv").exists()


def test_missing_debian_packages_are_named_with_the_reason(root: Path, tmp_path: Path) -> None:
    """Where apt-get fails, the tests go on, and what was left out is said."""
    for name, text in {"apt-get": "echo 'E: no network' >&2; exit 100", "dpkg": "exit 1"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    left_out = tmp_path / "left-out"
    path = f"PATH={tmp_path}:{os.environ['PATH']}"
    result = make(root, "debian", path, f"LEFT_OUT={left_out}", "DEBIAN_PACKAGES=nosuchpackage")
    assert result.returncode == 0
    assert "nosuchpackage" in left_out.read_text()
    assert re.search("no network|not root", left_out.read_text())
