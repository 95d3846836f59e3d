"""Where a function of a package is defined, found without importing the package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from diel.workflow.modules.catalogue import ModuleNotFound, find, load_function
from diel.workflow.modules.definition import NameNotFound, follow

PACKAGE = {
    "__init__.py": """
        from .core import *
        from ._impl import fit as learn
        from . import late
        scale = learn
        helper = wrap(learn)
        if fast:
            from .compiled import fast_fit
        """,
    "core.py": """
        from ._impl import fit
        import a_library_that_does_not_exist
        def own(x, /, *rest): ...
        class Model:
            def __init__(self, depth=3):
                self.depth = depth
            def learn(self, rate):
                return self.depth * rate
            @classmethod
            def of(cls, x, depth=1):
                return cls(depth).learn(x)
            @staticmethod
            def sum(x, y):
                return x + y
        """,
    "_impl.py": "import functools\n@odd.decorator\ndef fit(x, y): ...\n@functools.cache\ndef plain(x): ...\nclass Based(Other): ...\n",
    "late.py": "def __getattr__(name): ...\nlazy = ['made']\n",
    "hidden.py": "for one in names:\n    globals()[one] = 1\ndef known(): ...\n",
}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site" / "packaged"
    folder.mkdir(parents=True)
    for name, text in PACKAGE.items():
        (folder / name).write_text("\n".join(line.removeprefix(" " * 8) for line in text.split("\n")))
    monkeypatch.syspath_prepend(str(folder.parent))
    return folder


@pytest.mark.parametrize(
    ("module", "name", "place"),
    [
        ("packaged", "own", ("core.py", "own")),
        ("packaged", "fit", ("_impl.py", "fit")),
        ("packaged", "learn", ("_impl.py", "fit")),
        ("packaged", "scale", ("_impl.py", "fit")),
        ("packaged.core", "Model", ("core.py", "Model")),
        ("packaged", "helper", None),
        ("packaged", "fast_fit", None),
        ("packaged", "late", None),
        ("packaged.late", "made", None),
        ("packaged.hidden", "anything", None),
    ],
)
def test_a_name_is_followed_to_its_file(
    package: Path, module: str, name: str, place: tuple[str, str] | None
) -> None:
    assert follow(module, name) == (None if place is None else (package / place[0], place[1]))
    assert "packaged" not in sys.modules


@pytest.mark.parametrize(
    ("module", "name", "near"),
    [("packaged", "owm", "own"), ("packaged.late", "other", ""), ("packaged.hidden", "knwon", "")],
)
def test_a_name_that_is_nowhere_is_told_with_the_nearest(module: str, name: str, near: str) -> None:
    if near or name == "other":
        with pytest.raises(NameNotFound) as caught:
            follow(module, name)
        assert not near or near in caught.value.names
    else:  # its code may make it
        assert follow(module, name) is None


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("packaged:own", [("x", "place", True), ("rest", "spread", False)]),
        ("packaged:Model", [("depth", "name", False)]),
        ("packaged._impl:plain", [("x", "name", True)]),
        ("math:sqrt", [("x", "place", True)]),
        ("packaged:Model.learn", [("self", "name", False), ("rate", "name", True)]),
        ("packaged:Model.of", [("x", "name", True), ("depth", "name", False)]),
        ("packaged:Model.sum", [("x", "name", True), ("y", "name", True)]),
        ("statistics:mean", [("data", "name", True)]),
    ],
)
def test_the_signature_is_that_of_the_definition(
    tmp_path: Path, reference: str, expected: list[tuple[str, str, bool]]
) -> None:
    signature = find(reference, [tmp_path / "modules"]).signature
    assert [
        (parameter.name, parameter.passed, parameter.required) for parameter in signature.parameters
    ] == expected
    assert not signature.loose


@pytest.mark.parametrize(
    "reference",
    ["packaged:fit", "packaged:helper", "math:hypot", "builtins:max", "packaged._impl:Based.learn"],
)
def test_what_reading_cannot_show_is_not_checked(tmp_path: Path, reference: str) -> None:
    signature = find(reference, [tmp_path / "modules"]).signature
    assert signature.loose
    assert signature.returns is None
    assert signature.check({"whatever": 1}, ()) == []


def test_a_method_is_a_function_of_what_it_is_called_on(package: Path, tmp_path: Path) -> None:
    core = (
        (package / "core.py")
        .read_text()
        .replace("from ._impl", "from math")
        .replace("fit\nimport a_library", "sqrt # ")
    )
    package.rename(package.with_name("whole"))
    (package.parent / "whole" / "__init__.py").write_text(core)
    learn = load_function(find("whole:Model.learn", [tmp_path / "modules"]))
    model = load_function(find("whole:Model", [tmp_path / "modules"]))(depth=5)
    assert (learn(rate=2), learn(self={"depth": 4}, rate=2), learn(self=model, rate=2)) == (6, 8, 10)
    of, added = (load_function(find(f"whole:Model.{name}", [tmp_path / "modules"])) for name in ("of", "sum"))
    assert (of(x=4, depth=2), added(x=1, y=2)) == (8, 3)
    with pytest.raises(ModuleNotFound, match="'Model' has no method 'lern'; did you mean 'learn'?"):
        find("whole:Model.lern", [tmp_path / "modules"])


def test_a_directory_without_code_is_no_module(package: Path, tmp_path: Path) -> None:
    (package / "data").mkdir()
    (package.parent / "bare").mkdir()
    for name, message in (
        ("packaged.data", "no module 'packaged.data:fit'"),
        ("bare", "'bare' is a directory"),
    ):
        with pytest.raises(ModuleNotFound, match=message):
            find(f"{name}:fit", [tmp_path / "modules"])
