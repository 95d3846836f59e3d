"""Signatures, read from source text alone: every file here imports a library that does not exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from diel.base.errors import DielError
from diel.workflow.modules.catalogue import Module, every, find
from diel.workflow.modules.signature import Signature, SignatureError, read_signature
from tests.modules.conftest import Write


def test_a_module_is_described_without_importing_it(write: Write) -> None:
    path = write(
        '''
        class Base(TypedDict):
            energy: float

        class Result(Base):
            trajectory: Path
            field: "np.ndarray | None"
            steps: t.NotRequired[int]

        @diel.module(kind="simulation")
        def melt(size: int, temperature: float = 1.5, *, out: Path = Path("x"), ctx: diel.Context) -> Result:
            """Melts a crystal
            in a box.

            More words.
            """
        '''
    )
    module = read_signature(path, "melt")
    assert (module.name, module.kind, module.doc) == ("melt", "simulation", "Melts a crystal in a box.")
    assert not module.variadic
    assert module.returns == {
        "energy": "float",
        "trajectory": "Path",
        "field": "np.ndarray | None",
        "steps": "t.NotRequired[int]",
    }
    assert module.artifacts == {"trajectory", "field"}
    summary = [(p.name, p.annotation, p.required, p.default, p.injected) for p in module.parameters]
    assert summary == [
        ("size", "int", True, None, None),
        ("temperature", "float", False, 1.5, None),
        ("out", "Path", False, "<Path('x')>", None),
        ("ctx", "diel.Context", True, None, "context"),
    ]


def test_unknown_missing_and_injected_parameters_are_all_told(
    signature: Callable[[str], Signature],
) -> None:
    result = signature("size: int, steps: int = 10, *, context: diel.Context")
    assert result.check({"sizes": 3, "context": 1, "zzz": 1}, ()) == [
        ("sizes", "'f' has no parameter 'sizes'", "did you mean 'size'?"),
        ("context", "'context' is filled in by diel", "remove it"),
        ("zzz", "'f' has no parameter 'zzz'", "it takes: size, steps"),
        (None, "missing parameter 'size' (int) of 'f'", "give it in params or inputs"),
    ]
    assert result.check({"size": 3}, ()) == []


def test_only_the_name_counts_of_a_value_known_at_run_time(signature: Callable[[str], Signature]) -> None:
    result = signature("size: int")
    assert result.check({"size": "${{ hp.size }}"}, {"size"}) == []
    assert result.check({}, {"size"}) == []
    assert [problem[0] for problem in result.check({"sise": "x"}, {"sise"})] == ["sise", None]


def test_a_function_with_further_parameters_takes_any_name(signature: Callable[[str], Signature]) -> None:
    result = signature("size: int, **options")
    assert result.variadic
    assert result.check({"size": 1, "colour": "red"}, ()) == []


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("def f(: ...", 1, "not valid Python"),
        ("x = 1\n\0", 1, "not valid Python"),
        ("def ff(): ...", 1, "has no function 'f'; did you mean 'ff'?"),
        ("def other(): ...", 1, "its functions: other"),
        ("import diel\n@diel.module\ndef f(): ...", 2, "says no kind"),
        ("import diel\n@diel.module()\ndef f(): ...", 2, "says no kind"),
        ("import diel\n@diel.module(kind='simulator')\ndef f(): ...", 2, "kind 'simulator'; did you mean"),
        ("import diel\n@diel.module(kind=what())\ndef f(): ...", 2, "unknown kind what(); write"),
        ("async def f(): ...", 1, "async"),
        ("f = lambda: 1", 1, "is a lambda"),
        ("f = 3", 1, "is a variable"),
        ("from elsewhere import f", 1, "imported from elsewhere"),
        ("import diel\n@diel.module(kind='analysis')\ndef f():\n    yield 1", 3, "generator"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_module_is_refused_with_its_line(
    write: Write, body: str, line: int, words: str
) -> None:
    path = write("")
    path.write_text(body)
    with pytest.raises(SignatureError) as caught:
        read_signature(path, "f")
    assert isinstance(caught.value, DielError)
    assert words in str(caught.value)
    assert caught.value.line == line


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match="the file is not there"):
        read_signature(tmp_path / "none.py", "f")


def test_any_function_serves_where_none_need_be_decorated(write: Write) -> None:
    result = read_signature(write("if True:\n    def f(a: int) -> None: ...\n"), "f")
    assert (result.kind, result.returns) == (None, {})


@pytest.mark.parametrize(
    ("code", "returns"),
    [
        ("def f() -> dict[str, float]: ...", None),
        ("def f(): ...", None),
        ("def f() -> Unknown: ...", None),
        ("class R(NamedTuple):\n    a: int\ndef f() -> R: ...", {"a": "int"}),
        ("@dataclass\nclass R:\n    a: int\n    b: t.ClassVar[int] = 2\ndef f() -> 'R': ...", {"a": "int"}),
        ("class R:\n    a: int\ndef f() -> R: ...", None),
        ("class R(Elsewhere):\n    a: int\ndef f() -> R: ...", None),
    ],
)  # fmt: skip
def test_outputs_are_known_where_a_record_says_them(
    write: Write, code: str, returns: dict[str, str] | None
) -> None:
    path = write("from dataclasses import dataclass\n" + code)
    assert read_signature(path, "f").returns == returns


def test_a_changed_file_is_read_again(write: Write) -> None:
    path = write("def f(a): ...\n")
    assert [p.name for p in read_signature(path, "f").parameters] == ["a"]
    path = write("def f(a, bb): ...\n")
    assert [p.name for p in read_signature(path, "f").parameters] == ["a", "bb"]


def test_every_shipped_module_can_be_read_and_says_what_it_returns(root: Path) -> None:
    listing = list(every([root / "modules"]))
    assert [item for item in listing if not isinstance(item, Module)] == []
    modules = {item.reference: item for item in listing if isinstance(item, Module)}
    assert set(modules) >= {
        "analysis.kaufman",
        "analysis.surrogate_report",
        "inference.screen",
        "inference.screen:merge",
        "inference.screen:predict",
        "simulation.ising",
        "simulation.lammps_melt",
        "training.mlp",
    }
    for module in modules.values():
        assert module.signature.doc, module.reference
        assert module.signature.returns is not None, module.reference  # a service returns nothing


def test_the_bounds_of_the_ising_model_are_known_before_it_runs(root: Path) -> None:
    signature = find("simulation.ising", [root / "modules"]).signature
    assert [p.name for p in signature.parameters if p.injected] == ["context", "comm"]
    assert signature.artifacts == {"configuration"}
    problems = signature.check({"temperature": -1.0, "algorithm": "glauber", "size": 2}, deferred=())
    messages = {name: message for name, message, _ in problems}
    assert "more than 0" in messages["temperature"]
    assert "'metropolis' or 'wolff'" in messages["algorithm"]
    assert "at least 4" in messages["size"]


def test_the_ranges_of_a_screen_are_pairs(root: Path) -> None:
    signature = find("inference.screen", [root / "modules"]).signature
    assert signature.artifacts == {"summary"}
    problems = signature.check({"ranges": {"x": [0.0]}, "points": 0}, deferred=("model",))
    assert {name for name, _, _ in problems} == {"ranges", "points"}
