"""A workflow file becomes a spec; each problem stands at its line and column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diel.base.errors import Problem, SpecError
from diel.workflow.load import Document, examine, load, load_text, parse
from diel.workflow.load.document import fill_templates, kept_templates
from diel.workflow.models import Workflow
from diel.workflow.models.data import TemplateContent
from tests.check.asking import checked

HEAD = "diel: 1\nname: test\n"
STAGES = "stages:\n  a: {command: [echo, hello]}\n"


def document(text: str) -> Document:
    return load_text(text, Path("w.yaml"))


def problems(text: str) -> list[Problem]:
    with pytest.raises(SpecError) as caught:
        load_text(text, Path("w.yaml"))
    return list(caught.value.problems)


def test_a_good_file_becomes_a_spec(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(HEAD + STAGES, encoding="utf-8")
    found = load(path)
    assert found.path == path
    assert found.spec.name == "test"
    assert found.spec.stages["a"].command == ("echo", "hello")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_byte_order_mark_and_windows_lines_change_nothing(tmp_path: Path, newline: str) -> None:
    path = tmp_path / "w.yaml"
    text = HEAD + "stages:\n  a: {command: [echo], retrys: 1}\n"
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", newline).encode())
    with pytest.raises(SpecError, match=r"w\.yaml:4:24: stages\.a\.retrys"):
        load(path)


def test_the_words_of_a_command_and_variables_stay_as_they_are_written() -> None:
    text = HEAD + (
        "stages:\n  a:\n    command: [true, 1e-3, 007, 1.10, ~, no, 0x1F, 99999999999999999999999]\n"
        "    env: {A: 010, B: true, C: 1.50, D: }\n    params: {x: 1e-3, y: 007}\n  b: {command: true}\n"
    )
    stage = document(text).spec.stages["a"]
    words = ("true", "1e-3", "007", "1.10", "~", "no", "0x1F", "99999999999999999999999")
    assert stage.command == words
    assert stage.env == {"A": "010", "B": "true", "C": "1.50", "D": ""}
    assert stage.params == {"x": 0.001, "y": 7}
    assert document(text).spec.stages["b"].command == "true"


def test_a_few_aliases_are_allowed() -> None:
    text = (
        HEAD
        + "stages:\n  a: {command: [a], resources: &two {ranks: 2}}\n  b: {command: [b], resources: *two}\n"
    )
    assert document(text).spec.stages["b"].resources.ranks == 2


def test_every_problem_of_a_file_is_told_at_once_and_in_order() -> None:
    text = HEAD + (
        "axes:\n  t: {linspace: [0, 1]}\nstages:\n  a:\n    cmd: [echo]\n    retries: often\n"
        "    resources: {ntasks: two}\n    retries: 1\n  b: {}\n"
    )
    found = [(p.line, p.column, p.key) for p in problems(text)]
    assert found == [
        (4, 17, "axes.t.linspace"),
        (7, 5, "stages.a.cmd"),
        (8, 14, "stages.a.retries"),
        (9, 17, "stages.a.resources.ntasks"),
        (9, 25, "stages.a.resources.ntasks"),
        (10, 5, "stages.a.retries"),
        (11, 6, "stages.b"),
    ]


def test_messages_are_in_plain_words() -> None:
    text = HEAD + "stages:\n  a: {command: 5, over: 3, when: [1], inputs: {x: 1}, resources: {ranks: x}}\n"
    shown = "\n".join(map(str, problems(text)))
    for jargon in ("Input should", "pydantic", "http", "tuple", "str_type", "valid integer", "function-"):
        assert jargon not in shown


def test_a_document_is_there_beside_unknown_keys_so_that_other_checks_go_on() -> None:
    text = HEAD + "stages:\n  a: {cmd: [echo], retrys: 2, colour: blue}\n"
    found, wrong = examine(text, Path("w.yaml"))
    assert found is not None
    assert found.spec.stages["a"].command == ("echo",)
    assert found.spec.stages["a"].retries.limit == 2
    assert [p.key for p in wrong] == ["stages.a.cmd", "stages.a.retrys", "stages.a.colour"]


def test_there_is_no_document_where_a_value_is_wrong() -> None:
    found, wrong = examine(HEAD + "stages:\n  a: {command: [echo], retries: x}\n", Path("w.yaml"))
    assert found is None
    assert len(wrong) == 1


def test_a_great_many_problems_are_cut_short() -> None:
    stages = "".join(f"  s{n}: {{command: [a], retries: x}}\n" for n in range(500))
    found = problems(HEAD + "stages:\n" + stages)
    assert len(found) == 101
    assert "and more problems from here on" in found[-1].message


TEXT = HEAD + (
    "stages:\n  train:\n    module: training.mlp\n    params:\n      hidden: 3\n      layers: [1, 2]\n"
    '      title: "say ${{ x }}"\n    command:\n'
)


@pytest.mark.parametrize(
    ("key", "options", "place"),
    [
        (("stages", "train", "params", "hidden"), {}, (7, 15)),
        (("stages", "train", "params", "hidden"), {"at_key": True}, (7, 7)),
        (("stages", "train", "params", "layers", 1), {}, (8, 19)),
        (("stages", "train", "params", "missing"), {}, (6, 5)),
        (("stages", "train", "params"), {}, (6, 5)),
        (("stages", "nowhere", "at", "all"), {}, (3, 1)),
        (("nowhere",), {}, (1, 1)),
        ((), {}, (1, 1)),
        (("stages", "train", "params", "title"), {"offset": 8}, (9, 23)),
    ],
)
def test_a_key_is_found_in_the_text_or_its_nearest_part(
    key: tuple[str | int, ...], options: dict[str, Any], place: tuple[int, int]
) -> None:
    source, _, wrong = parse(TEXT, Path("w.yaml"))
    assert not wrong
    found = source.problem(key, "message", "hint", **options)
    assert (found.line, found.column) == place
    assert found.key == ".".join(map(str, key))


@pytest.mark.parametrize(
    ("yaml", "text"),
    [
        ("  a ${{ x }} b", "a ${{ x }} b"),
        ("  'it''s ${{ x }}'", "it's ${{ x }}"),
        ("|\n    first line\n    then ${{ x }}\n", "first line\nthen ${{ x }}\n"),
        (">-\n    folded\n    ${{ x }}\n", "folded ${{ x }}"),
        ("plain\n    over two ${{ x }}", "plain over two ${{ x }}"),
    ],
)
def test_an_offset_points_inside_a_text_however_it_is_written(yaml: str, text: str) -> None:
    whole = f"key: {yaml}\n"
    source, data, _ = parse(whole, Path("w.yaml"))
    assert data == {"key": text}
    found = source.problem(("key",), "here", offset=text.index("x }}"))
    lines = whole.split("\n")
    assert lines[found.line - 1][found.column - 1 :].startswith("x }}")


def test_a_file_of_many_values_is_read() -> None:
    values = ", ".join(map(str, range(20_000)))
    axis = document(HEAD + f"axes:\n  t: {{values: [{values}]}}\n" + STAGES).spec.axes["t"]
    assert axis.size({}) == 20_000


@given(st.text(alphabet=st.sampled_from("ab:-[]{}*&!|>'\"# \n\t,?%@`~<$1.e\0é\u2028"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    found, wrong = examine(text, Path("w.yaml"))
    assert found is None
    assert wrong
    assert all(p.line >= 1 and p.column >= 1 for p in wrong)


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_WORDS = st.sampled_from(
    [
        "values",
        "zip",
        "command",
        "module",
        "inputs",
        "resources",
        "ranks",
        "from",
        "at",
        "search",
        "run",
        "a b",
    ]
)
_TREES = st.recursive(_LEAVES, lambda x: st.lists(x, max_size=4) | st.dictionaries(_WORDS, x, max_size=4))


@given(_TREES, st.sampled_from(["axes", "stages", "hyperparameters"]))
def test_any_content_is_read_or_refused(content: Any, section: str) -> None:
    import json

    whole: dict[str, Any] = {"diel": 1, "name": "x", "stages": {"s": {"command": "true"}}}
    whole[section] = {"s" if section == "stages" else "t": content}
    examine(json.dumps(whole, allow_nan=False) if _finite(content) else "", Path("w.yaml"))


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return value == value and abs(value) != float("inf")
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    return not isinstance(value, list) or all(map(_finite, value))


FLOW = """
stages:
  a: {command: ["true"], files: {x: {template: x.in}}}
  b: {command: ["true"], files: {x: {template: x.in}}}
"""


def texts(spec: Workflow) -> list[str]:
    return [one.text for one in kept_templates(spec).values()]


def test_each_stage_gets_back_its_own_text_and_in_an_earlier_run_that_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "x.in").write_text("now")
    spec = checked(tmp_path, FLOW).workflow
    kept = kept_templates(spec)
    assert len(kept) == 2
    fill_templates(spec, {key: TemplateContent(key[:8]) for key in kept})
    assert texts(spec) == ["stages.a", "stages.b"]
    fill_templates(spec, {"x.in": TemplateContent("then")})
    assert texts(spec) == ["then", "then"]
