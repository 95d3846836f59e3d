"""Signatures, read from source text alone: every file here imports a library that does not exist."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diel.errors import DielError
from diel.modules.signature import Signature, read_signature
from diel.modules.source import SignatureError

HEAD = """
from __future__ import annotations
import a_library_that_does_not_exist
import annotated_types as at
import collections.abc as cabc
import typing as t
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Optional, TypedDict, Union
import diel
import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
raise SystemExit("this file was imported")
"""

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(body: str, head: str = HEAD) -> Path:
        path = tmp_path / "module.py"
        path.write_text(head + textwrap.dedent(body), encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def signature(write: Write) -> Callable[[str], Signature]:
    def read(parameters: str) -> Signature:
        body = f'@diel.module(kind="simulation")\ndef f({parameters}): ...\n'
        return read_signature(write("Positive = Annotated[int, Field(ge=1)]\nLIMIT = 5\n" + body), "f")

    return read


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
    found = read_signature(path, "melt")
    assert (found.name, found.kind, found.doc) == ("melt", "simulation", "Melts a crystal in a box.")
    assert not found.variadic
    assert found.returns == {
        "energy": "float",
        "trajectory": "Path",
        "field": "np.ndarray | None",
        "steps": "t.NotRequired[int]",
    }
    assert found.artifacts == {"trajectory", "field"}
    summary = [(p.name, p.annotation, p.required, p.default, p.injected) for p in found.parameters]
    assert summary == [
        ("size", "int", True, None, None),
        ("temperature", "float", False, 1.5, None),
        ("out", "Path", False, "<Path('x')>", None),
        ("ctx", "diel.Context", True, None, "context"),
    ]


@pytest.mark.parametrize(
    ("annotation", "injected"),
    [
        ("diel.Context", "context"),
        ("Context", "context"),
        ("'diel.Context | None'", "context"),
        ("MPI.Comm", "communicator"),
        ("MPI.Intracomm | None", "communicator"),
        ("Optional[MPI.Comm]", "communicator"),
        ("'MPI.Comm'", "communicator"),
        ("int", None),
        ("MPI.Win", None),
    ],
)
def test_contexts_and_communicators_are_filled_in_by_their_annotation(
    signature: Callable[[str], Signature], annotation: str, injected: str | None
) -> None:
    assert signature(f"x: {annotation} = None").parameters[0].injected == injected


FITS: list[tuple[str, list[Any]]] = [
    ("int", [0, -3, 2**70]),
    ("float", [1, 1.5, float("inf")]),
    ("str", ["", "1"]),
    ("bool", [True]),
    ("Path", ["a/b"]),
    ("None", [None]),
    ("t.Any", [1, "a", None, [1]]),
    ("list[int]", [[], [1, 2]]),
    ("list", [[1, "a"]]),
    ("t.List[float]", [[1, 2.5]]),
    ("tuple[int, ...]", [[1, 2, 3]]),
    ("tuple[int, str]", [[1, "a"]]),
    ("set[int]", [[1, 2]]),
    ("cabc.Sequence[float]", [[1]]),
    ("t.Mapping[str, int]", [{"a": 1}]),
    ("dict[str, list[int]]", [{"a": [1]}]),
    ("int | None", [1, None]),
    ("Optional[int]", [1, None]),
    ("Union[int, str]", [1, "a"]),
    ("Literal['metropolis', 'wolff']", ["wolff"]),
    ("t.Literal[1, None]", [1, None]),
    ("Annotated[int, Field(ge=1, le=LIMIT)]", [1, 5]),
    ("Annotated[float, at.Gt(0), at.Lt(1)]", [0.5]),
    ("Annotated[int, at.Interval(ge=-1, le=1)]", [-1]),
    ("Annotated[str, Field(pattern='^a', max_length=2)]", ["ab"]),
    ("Annotated[list[int], Field(min_length=1)]", [[1]]),
    ("Positive", [1]),
    ("'Positive | None'", [1, None]),
    ("PositiveInt", [1]),
    ("SomethingUnknown", [1, "a", None, {"a": []}]),
    ("int | np.ndarray", [1, "a.npy"]),
    ("list[torch.Tensor]", [["a", 1]]),
]

MISFITS = [
    ("int", True, "expected a whole number, found true"),
    ("int", "1", 'expected a whole number, found "1"'),
    ("int", 1.5, "expected a whole number, found 1.5"),
    ("int", 1e6, "expected a whole number, found 1000000.0"),
    ("int", None, "expected a whole number, found null"),
    ("float", True, "expected a number, found true"),
    ("float", "1.5", 'expected a number, found "1.5"'),
    ("str", 1, "expected a text, found 1"),
    ("bool", 1, "expected true or false, found 1"),
    ("bool", "yes", 'expected true or false, found "yes"'),
    ("Path", 1, "expected a text, found 1"),
    ("list[int]", "12", 'expected a list, found "12"'),
    ("list[int]", [1, "a"], 'expected a whole number, found "a" in [1, "a"]'),
    ("tuple[int, int]", [1, 2, 3], "expected at most 2 items, found [1, 2, 3]"),
    ("tuple[int, int]", [1], "expected more items, found [1]"),
    ("dict[str, int]", [1], "expected a mapping, found [1]"),
    ("dict[str, int]", {"a": "b"}, 'expected a whole number, found "b" in {"a": "b"}'),
    ("int | None", "a", 'expected a whole number, found "a"'),
    ("int | str", 1.5, "expected a whole number or a text, found 1.5"),
    ("Literal['a', 'b']", "c", "expected 'a' or 'b', found \"c\""),
    ("Annotated[int, Field(ge=1)]", 0, "expected at least 1, found 0"),
    ("Annotated[int, Field(le=LIMIT)]", 6, "expected at most 5, found 6"),
    ("Annotated[float, at.Gt(0)]", 0, "expected more than 0.0, found 0"),
    ("Annotated[float, at.Interval(gt=0, lt=1)]", 1, "expected less than 1.0, found 1"),
    ("Annotated[int, Field(multiple_of=2)]", 3, "expected a multiple of 2, found 3"),
    ("Annotated[str, Field(pattern='^a')]", "b", 'expected a text that matches ^a, found "b"'),
    ("Annotated[list[int], Field(min_length=2)]", [1], "expected at least 2 items, found [1]"),
    ("Positive", 0, "expected at least 1, found 0"),
    ("list[Positive]", [1, 0], "expected at least 1, found 0 in [1, 0]"),
    ("PositiveInt", 0, "expected more than 0, found 0"),
]


@pytest.mark.parametrize(("annotation", "values"), FITS)
def test_values_that_fit_are_accepted(
    signature: Callable[[str], Signature], annotation: str, values: list[Any]
) -> None:
    for value in values:
        assert signature(f"x: {annotation}").check({"x": value}, ()) == []


@pytest.mark.parametrize(("annotation", "value", "message"), MISFITS)
def test_values_that_do_not_fit_are_refused_in_plain_words(
    signature: Callable[[str], Signature], annotation: str, value: Any, message: str
) -> None:
    assert signature(f"x: {annotation}").parameters[0].check(value) == message


@pytest.mark.parametrize(
    ("annotation", "value", "hint"),
    [
        ("int", 1e6, "1000000"),
        ("float", "1.5", "without quotes"),
        ("bool", "no", "true or false"),
        ("int", "a", ""),
        ("Annotated[float, at.Lt(1)]", 2.0, ""),
    ],
)
def test_the_usual_slips_of_yaml_get_a_hint(
    signature: Callable[[str], Signature], annotation: str, value: Any, hint: str
) -> None:
    [(name, message, found)] = signature(f"x: {annotation}").check({"x": value}, ())
    assert name == "x"
    assert message.startswith("expected ")
    assert (hint in found) if hint else (found == "")


def test_unknown_missing_and_injected_parameters_are_all_told(
    signature: Callable[[str], Signature],
) -> None:
    found = signature("size: int, steps: int = 10, *, context: diel.Context")
    assert found.check({"sizes": 3, "context": 1, "zzz": 1}, ()) == [
        ("sizes", "'f' has no parameter 'sizes'", "did you mean 'size'?"),
        ("context", "'context' is filled in by diel", "remove it"),
        ("zzz", "'f' has no parameter 'zzz'", "it takes: size, steps"),
        (None, "missing parameter 'size' (int) of 'f'", "give it in params or inputs"),
    ]
    assert found.check({"size": 3}, ()) == []


def test_only_the_name_counts_of_a_value_known_at_run_time(signature: Callable[[str], Signature]) -> None:
    found = signature("size: int")
    assert found.check({"size": "${{ hp.size }}"}, {"size"}) == []
    assert found.check({}, {"size"}) == []
    assert [problem[0] for problem in found.check({"sise": "x"}, {"sise"})] == ["sise", None]


def test_a_function_with_further_parameters_takes_any_name(signature: Callable[[str], Signature]) -> None:
    found = signature("size: int, **options")
    assert found.variadic
    assert found.check({"size": 1, "colour": "red"}, ()) == []


def test_bounds_that_make_no_sense_check_nothing(signature: Callable[[str], Signature]) -> None:
    assert signature("x: Annotated[int, Field(ge='a')]").parameters[0].check(3) is None
    assert signature("x: Annotated[Path, Field(min_length=1)]").parameters[0].check("a") is None


def test_an_alias_of_itself_ends(write: Write) -> None:
    path = write("A = B\nB = A\nC = list[C]\n@diel.module(kind='analysis')\ndef f(a: A, c: C): ...\n")
    assert read_signature(path, "f").check({"a": 1, "c": [[]]}, ()) == []


@pytest.mark.parametrize(
    ("imports", "decorator"),
    [
        ("import diel", "diel.module(kind='training')"),
        ("import diel as d", "d.module(kind='training')"),
        ("from diel import module", "module(kind='training')"),
        ("from diel import module as m", "m(kind='training')"),
        ("import diel\nKIND = 'training'", "diel.module(kind=KIND)"),
        ("import diel, functools", "functools.lru_cache\n@diel.module(kind='training')"),
    ],
)
def test_the_decorator_is_known_under_every_name(write: Write, imports: str, decorator: str) -> None:
    path = write(f"{imports}\n@{decorator}\ndef f(): ...\n", "")  # type: ignore[call-arg]
    assert read_signature(path, "f").kind == "training"


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("def f(: ...", 1, "not valid Python"),
        ("x = 1\n\0", 1, "not valid Python"),
        ("def ff(): ...", 1, "has no function 'f'; did you mean 'ff'?"),
        ("def other(): ...", 1, "its functions: other"),
        ("\ndef f(): ...", 2, "'f' is not a module; decorate it"),
        ("import diel\n@diel.module\ndef f(): ...", 2, "says no kind"),
        ("import diel\n@diel.module()\ndef f(): ...", 2, "says no kind"),
        ("import diel\n@diel.module(kind='simulator')\ndef f(): ...", 2, "kind 'simulator'; did you mean"),
        ("import diel\n@diel.module(kind=what())\ndef f(): ...", 2, "unknown kind what(); write"),
        ("async def f(): ...", 1, "async"),
        ("class f: ...", 1, "is a class"),
        ("f = lambda: 1", 1, "is a lambda"),
        ("f = 3", 1, "is a variable"),
        ("from elsewhere import f", 1, "imported from elsewhere"),
        ("import diel\n@diel.module(kind='analysis')\ndef f():\n    yield 1", 3, "generator"),
        ("import diel\n@diel.module(kind='analysis')\ndef f(a, /): ...", 3, "cannot be given by name"),
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
    found = read_signature(write("if True:\n    def f(a: int) -> None: ...\n"), "f", decorated=False)
    assert (found.kind, found.returns) == (None, {})


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
    assert read_signature(path, "f", decorated=False).returns == returns


def test_a_changed_file_is_read_again(write: Write) -> None:
    path = write("def f(a): ...\n")
    assert [p.name for p in read_signature(path, "f", decorated=False).parameters] == ["a"]
    path = write("def f(a, bb): ...\n")
    assert [p.name for p in read_signature(path, "f", decorated=False).parameters] == ["a", "bb"]
