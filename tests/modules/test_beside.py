"""Files of a user import each other from the folders in which they lie; each module those of its own folders."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from diel.workflow.modules.catalogue import find, search_path

CALLED = """
import json, sys
from pathlib import Path
from diel.workflow.modules.catalogue import find, load_function, search_path
found = []
for reference, folder in json.loads(sys.argv[1]):
    found.append(load_function(find(reference, search_path(Path(folder), Path(folder))))())
print(json.dumps(found))
"""


def called(*pairs: tuple[str, Path]) -> list[object]:
    """What functions give that are called in one process, one after the other."""
    words = json.dumps([(reference, str(folder)) for reference, folder in pairs])
    done = subprocess.run([sys.executable, "-c", CALLED, words], check=True, capture_output=True, text=True)
    values: list[object] = json.loads(done.stdout)
    return values


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_module_imports_files_beside_it_and_from_the_top_of_its_folder(tmp_path: Path) -> None:
    write(tmp_path / "modules/heat/mesh.py", "size = 4\n")
    write(tmp_path / "modules/units.py", "scale = 10\n")
    write(
        tmp_path / "modules/heat/solve.py",
        "import mesh\nfrom units import scale\ndef solve():\n    from heat.mesh import size\n    return mesh.size * scale + size\n",
    )
    assert called(("heat.solve", tmp_path)) == [44]


@pytest.mark.parametrize("reference", ["run", "lab:run"])
def test_files_of_one_name_in_two_folders_are_two_files(tmp_path: Path, reference: str) -> None:
    text = "import helper\nclass Of: pass\ndef run():\n    import helper as again\n    return [helper.name, again.name]\n"
    for name in ("one", "two"):
        below = tmp_path / name if ":" in reference else tmp_path / name / "modules"
        write(below / f"{reference.partition(':')[0]}.py", text)
        write(below / "helper.py", f"name = '{name}'\n")
    first, two = tmp_path / "one", tmp_path / "two"
    assert called((reference, first), (reference, two), (reference, first)) == [
        ["one"] * 2,
        ["two"] * 2,
        ["one"] * 2,
    ]


def test_what_is_imported_stays_the_same_object_while_other_modules_are_called(tmp_path: Path) -> None:
    write(tmp_path / "one/modules/shape.py", "class Shape: pass\n")
    keeper = "import pickle, shape\ndef keep():\n    return len(pickle.dumps(shape.Shape())) > 0\n"
    write(tmp_path / "one/modules/keep.py", keeper)
    write(tmp_path / "two/modules/other.py", "def other():\n    return 1\n")
    first, two = tmp_path / "one", tmp_path / "two"
    assert called(("keep", first), ("other", two), ("keep", first)) == [True, 1, True]


def test_a_file_in_modules_does_not_hide_a_package(tmp_path: Path) -> None:
    write(tmp_path / "modules/click.py", "import click\ndef run():\n    return hasattr(click, 'echo')\n")
    assert called(("click:run", tmp_path)) == [True]


def test_what_a_module_imports_from_its_folders_is_part_of_its_version(tmp_path: Path) -> None:
    write(
        tmp_path / "modules/solve.py",
        "import mesh\nimport json\ndef solve():\n    from part import inner\n    from ................ import far\n",
    )
    write(tmp_path / "modules/mesh.py", "from deep import *\n")
    for name in ("deep", "part/__init__", "part/inner", "unused"):
        write(tmp_path / f"modules/{name}.py", "x = 1\n")
    write(tmp_path / "lab.py", "import near, fast\ndef run(): return near\n")
    write(tmp_path / "near.py", "x = 1\n")
    compiled = f"fast{EXTENSION_SUFFIXES[0]}"
    write(tmp_path / compiled, "what a compiler made")

    def digests() -> list[str]:
        folders = search_path(tmp_path, tmp_path)
        return [find("solve", folders).digest, find("lab:run", folders).digest]

    history = [digests()]
    for name, changed in (
        ("modules/mesh.py", [True, False]),
        ("modules/deep.py", [True, False]),
        ("modules/part/inner.py", [True, False]),
        ("modules/unused.py", [False, False]),
        ("near.py", [False, True]),
        (compiled, [False, True]),
    ):
        write(tmp_path / name, "from deep import *\nx = 'longer'\n")
        history.append(digests())
        assert [now != before for now, before in zip(*history[-2:][::-1], strict=True)] == changed, name
