"""Finding modules by name, and loading them by reference."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import diel.workflow.modules.catalogue
from diel.base.errors import DielError, ModuleError, Problem, UsageError
from diel.base.extensions import entry_points_of
from diel.base.paths import shipped
from diel.workflow.modules.catalogue import (
    Module,
    ModuleNotFound,
    digest_of,
    every,
    find,
    load_function,
    search_path,
)
from diel.workflow.modules.signature import Signature

HEAVY = "import a_library_that_does_not_exist\n"


def module_file(path: Path, *functions: str, heavy: bool = True) -> Path:
    """A file with a decorated function of each name, which returns its own file's path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = (HEAVY if heavy else "") + "import diel\n"
    for name in functions:
        text += f'@diel.module(kind="simulation")\ndef {name}(size: int = 1):\n    return __file__, size\n'
    path.write_text(text)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "modules"


@pytest.fixture(autouse=True)
def _no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diel.workflow.modules.catalogue, "entry_points_of", lambda group: {})


def test_a_name_means_the_function_of_that_name_in_the_file(folder: Path) -> None:
    path = module_file(folder / "simulation" / "ising.py", "helper", "ising")
    module = find("simulation.ising", [folder])
    assert (module.path, module.function, module.import_name) == (path, "ising", None)
    assert (module.reference, module.origin, module.signature.kind) == (
        "simulation.ising",
        "workflow",
        "simulation",
    )
    assert find("simulation.ising:helper", [folder]).function == "helper"


def test_a_name_means_the_only_module_of_a_file(folder: Path) -> None:
    path = module_file(folder / "a" / "b" / "c.py", "run")
    path.write_text(path.read_text() + "def c(): ...\n")
    assert find("a.b.c", [folder]).function == "run"


def test_the_first_folder_that_has_a_name_wins(tmp_path: Path) -> None:
    workflow, cwd = tmp_path / "w", tmp_path / "c"
    module_file(cwd / "modules" / "one.py", "one")
    module_file(cwd / "modules" / "two.py", "two")
    mine = module_file(workflow / "modules" / "one.py", "one")
    folders = search_path(workflow, cwd)
    assert folders == (workflow / "modules", cwd / "modules", shipped("modules"))
    assert find("one", folders).path == mine
    assert (find("one", folders).origin, find("two", folders).origin) == ("workflow", "project")


def test_a_folder_is_searched_once(tmp_path: Path) -> None:
    assert search_path(tmp_path, tmp_path) == (tmp_path / "modules", shipped("modules"))
    checkout = shipped("modules").parent
    assert search_path(checkout, tmp_path) == (shipped("modules"), tmp_path / "modules")


def test_what_diel_ships_is_found_beside_the_package_or_inside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (shipped("modules") / "simulation").is_dir()
    package = tmp_path / "diel"
    monkeypatch.setattr("diel.base.paths.__file__", str(package / "base" / "paths.py"))
    assert shipped("workflows") == tmp_path / "workflows"
    (package / "_shipped" / "workflows").mkdir(parents=True)
    assert shipped("workflows") == package / "_shipped" / "workflows"


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("simulation.izing", "did you mean 'simulation.ising'?"),
        ("ising", "did you mean 'simulation.ising'?"),
        ("training.mlp", "looked in "),
        ("several", "name one: several:one, several:two"),
        ("several:three", "no function 'three'; its functions: one, two"),
        ("empty", "the file has no module; write a function whose name"),
        ("broken", "not valid Python"),
        ("no_such_package:run", "on PYTHONPATH"),
        ("../secret", "not the name of a module"),
        ("a/b", "not the name of a module"),
        ("a..b", "not the name of a module"),
        ("", "not the name of a module"),
        ("a:b:c", "not the name of a module"),
        ("a.py", "no module 'a.py'"),
        ("simulation.ising:", "not the name of a module"),
        ("a" * 300, "not the name of a module"),
        ("several:_one", "'_one' is private"),
        ("math:sqroot", "'math' has no function 'sqroot'; did you mean 'sqrt'?"),
        ("json:loads2", "no function 'loads2'; did you mean 'loads'?"),
        ("numpy:linspac", "'numpy' has no function 'linspac'; did you mean 'linspace'?"),
        ("scipy.stats:linregres", "did you mean 'linregress'?"),
    ],
)
def test_what_is_not_there_is_refused_with_what_to_do(folder: Path, reference: str, words: str) -> None:
    module_file(folder / "simulation" / "ising.py", "ising")
    module_file(folder / "several.py", "one", "two")
    module_file(folder / "empty.py")
    module_file(folder / "broken.py").write_text("def (:\n")
    with pytest.raises(ModuleNotFound) as caught:
        find(reference, [folder])
    assert words in str(caught.value)
    assert isinstance(caught.value, DielError)
    assert caught.value.exit_code == 2


def test_an_installed_function_is_found_without_importing_its_packages(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = tmp_path_factory.mktemp("lib")  # what lies below the workflow's folder is the user's own
    package = lib / "heavy_package" / "inner"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text(HEAVY)
    (package / "__init__.py").write_text(HEAVY)
    (package / "code.py").write_text(HEAVY + "def run(x: int): ...\n")
    monkeypatch.syspath_prepend(str(lib))
    module = find("heavy_package.inner.code:run", [folder])
    assert module.path == package / "code.py"
    assert (module.import_name, module.origin, module.signature.kind) == (
        "heavy_package.inner.code",
        "installed",
        None,
    )
    assert not any(name.startswith("heavy_package") for name in sys.modules)
    with pytest.raises(ModuleError, match="install a_library_that_does_not_exist where the workers run"):
        load_function(module)


def test_an_entry_point_names_an_installed_function(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    module_file(site / "pointed.py", "fit")
    info = site / "pointed-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pointed\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[diel.modules]\nlab.fit = pointed:fit\nlab.gone = nowhere:fit\n")
    monkeypatch.undo()  # the real entry points, of this folder too
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        importlib.invalidate_caches()
        entry_points_of.cache_clear()
        module = find("lab.fit", [folder])
        assert (module.reference, module.import_name, module.function) == ("lab.fit", "pointed", "fit")
        with pytest.raises(ModuleNotFound, match="there is no 'nowhere'"):
            find("lab.gone", [folder])
        listed = list(every([folder]))
        assert [item.reference for item in listed if isinstance(item, Module)] == ["lab.fit"]
        assert [item.file for item in listed if isinstance(item, Problem)] == ["entry point lab.gone"]
        local = module_file(folder / "lab" / "fit.py", "fit")
        assert find("lab.fit", [folder]).path == local
    entry_points_of.cache_clear()


def test_two_packages_that_name_a_module_alike_are_told(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("one", "two"):
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[diel.modules]\nlab.fit = {package}:fit\n")
    monkeypatch.undo()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        importlib.invalidate_caches()
        entry_points_of.cache_clear()
        with pytest.raises(
            UsageError, match="two installed packages have a 'lab.fit' in diel.modules: one:fit"
        ):
            find("lab.fit", [folder])
    entry_points_of.cache_clear()


def test_every_module_is_listed_once_and_a_broken_file_has_its_place(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    module_file(first / "simulation" / "ising.py", "ising", "other")
    module_file(first / "broken.py").write_text("x = 1\ndef (:\n")
    module_file(first / "_private.py", "hidden")
    module_file(first / "not-a-name.py", "hidden")
    module_file(first / "__pycache__" / "ising.py", "hidden")
    module_file(first / "plain.py")
    module_file(second / "simulation" / "ising.py", "shadowed")
    module_file(second / "late.py", "late")
    listed = list(every([first, second, tmp_path / "absent"]))
    names = [item.reference for item in listed if isinstance(item, Module)]
    assert names == ["simulation.ising", "simulation.ising:other", "late"]
    [problem] = [item for item in listed if isinstance(item, Problem)]
    assert (problem.file, problem.line) == (str(first / "broken.py"), 2)
    for name in names:
        assert find(name, [first, second]).reference == name


@pytest.mark.parametrize(("sort", "words"), [("pipe", "is a pipe"), ("/dev/zero", "is a device")])
def test_a_pipe_or_device_among_the_modules_is_told_and_not_waited_for(
    tmp_path: Path, sort: str, words: str
) -> None:
    path = tmp_path / "endless.py"
    if sort == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(sort)
    with pytest.raises(ModuleNotFound, match=f"endless.py:1.: the file {words}, not an ordinary"):
        find("endless", [tmp_path])
    problem = next(entry for entry in every([tmp_path]) if isinstance(entry, Problem))
    assert f"{words}, not an ordinary file" in problem.message


def test_a_link_may_lead_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    target = module_file(tmp_path / "elsewhere.py", "linked")
    folder.mkdir()
    (folder / "linked.py").symlink_to(target)
    assert find("linked", [folder]).function == "linked"


def test_the_digest_follows_the_content(folder: Path) -> None:
    path = module_file(folder / "one.py", "one")
    before = find("one", [folder]).digest
    copy = module_file(folder / "two.py", "one")
    assert digest_of(copy) == before
    path.write_text(path.read_text() + "# changed\n")
    assert find("one", [folder]).digest != before


def test_a_function_is_loaded_once_for_each_version_of_its_file(folder: Path) -> None:
    path = module_file(folder / "one.py", "one", heavy=False)
    function = load_function(find("one", [folder]))
    assert function(size=3) == (str(path), 3)
    assert load_function(find("one", [folder])) is function
    path.write_text(path.read_text().replace("return __file__", "return 'new'"))
    assert load_function(find("one", [folder]))() == ("new", 1)
    assert function() == (str(path), 1)


def test_files_of_one_name_do_not_collide(tmp_path: Path) -> None:
    paths = [module_file(tmp_path / name / "same.py", "same", heavy=False) for name in ("a", "b")]
    assert [load_function(find("same", [path.parent]))()[0] for path in paths] == [
        str(path) for path in paths
    ]


def test_a_module_may_hold_dataclasses(folder: Path) -> None:
    path = module_file(folder / "record.py", "record", heavy=False)
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    text += "@dataclass\nclass R:\n    x: int\n"
    path.write_text(text + path.read_text().replace("return __file__, size", "return R(size)"))
    assert load_function(find("record", [folder]))(size=2).x == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import a_library_that_does_not_exist\n", "install a_library_that_does_not_exist"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def (:\n", "SyntaxError"),
        ("f = 3\n", "has no function 'f'"),
        ("", "has no function 'f'"),
    ],
)
def test_what_cannot_be_loaded_says_why(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text)
    signature = Signature("f", None, "", (), variadic=False, returns=None, artifacts=frozenset())
    module = Module("bad", path, "f", signature, None, "workflow", digest_of(path))
    before = set(sys.modules)
    with pytest.raises(ModuleError, match=r"bad\.py") as caught:
        load_function(module)
    assert words in str(caught.value)
    if text and not text.startswith("f ="):
        assert set(sys.modules) == before


def test_finding_modules_loads_no_library(folder: Path) -> None:
    module_file(folder / "one.py", "one")
    script = f"""
        import sys
        from pathlib import Path
        from diel.workflow.modules.catalogue import find
        find("one", [Path({str(folder)!r})])
        heavy = {{"numpy", "parsl", "torch", "rich", "pydantic", "importlib.metadata", "yaml"}}
        print(sorted(heavy & set(sys.modules)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_relative_import_is_refused_before_it_fails(folder: Path) -> None:
    module_file(folder / "helper.py", "helper", heavy=False)
    path = module_file(folder / "walk.py", "walk", heavy=False)
    path.write_text("from .helper import helper\n" + path.read_text())
    with pytest.raises(ModuleNotFound, match=r"walk\.py:1.* belongs to no package.*without the dot"):
        find("walk", (folder,))
    path.write_text(path.read_text().replace(".helper", "helper"))
    assert find("walk", (folder,)).function == "walk"
