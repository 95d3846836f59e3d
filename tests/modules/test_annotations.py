"""What annotations mean, read without importing what they name: types, and what diel fills in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from diel.workflow.modules.signature import Signature, read_signature
from tests.modules.conftest import Write

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
    ("int | np.ndarray", [1, [1.5, 2]]),
    ("list[torch.Tensor]", [["a", 1]]),
]


@pytest.mark.parametrize(("annotation", "values"), FITS)
def test_values_that_fit_are_accepted(
    signature: Callable[[str], Signature], annotation: str, values: list[Any]
) -> None:
    for value in values:
        assert signature(f"x: {annotation}").check({"x": value}, ()) == []


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


def test_what_cannot_be_checked_is_refused(signature: Callable[[str], Signature]) -> None:
    for bounds in ("int, Field(ge='a')", "Path, Field(min_length=1)"):
        [(_, message, _)] = signature(f"x: Annotated[{bounds}]").check({"x": 3}, ())
        assert message.startswith(("its type cannot be checked: ", "expected a text"))
    [(_, message, _)] = signature("x: Annotated[int, Field(ge='a')]").check({"x": None}, {"x"})
    assert message.startswith("its type cannot be checked: ")


def test_a_default_of_pydantic_is_refused(signature: Callable[[str], Signature]) -> None:
    [(_, message, hint)] = signature("x: int = Field(default=3, ge=2)").check({"x": 1}, ())
    assert message == "the default of 'x' is an object of pydantic, which a function gets"
    assert hint == "write x: Annotated[int, Field(…)] = its default"


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
