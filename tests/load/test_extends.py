"""A stage has the keys of what it extends where it has none itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.base.errors import SpecError
from diel.workflow.load import load_text
from diel.workflow.models import Stage, Workflow

HEAD = "diel: 1\nname: test\n"


def workflow(text: str) -> Workflow:
    return load_text(HEAD + text, Path("w.yaml")).spec


def stage(text: str) -> Stage:
    return workflow(text).stages["a"]


def test_a_stage_extends_a_template_and_a_chain_of_stages() -> None:
    found = stage("""
templates:
  code: {command: [run, "1"], env: {A: x, B: y}, resources: {ranks: 2, memory: 1GiB}, retries: 1}
stages:
  a: {extends: b, resources: {ranks: 8}, over: []}
  b: {extends: code, env: {B: z}, timeout: 1h}
""")
    assert found.command == ("run", "1")
    assert found.env == {"A": "x", "B": "z"}
    assert (found.resources.ranks, found.resources.memory) == (8, 2**30)
    assert (found.retries.limit, found.timeout) == (1, 3600)


def test_lists_are_replaced_and_null_takes_a_key_away() -> None:
    found = stage("""
axes: {x: {values: [1]}, y: {values: [2]}}
templates:
  code: {command: [echo], over: [x], timeout: 1h, resources: {ranks: 2}, params: {p: 1}}
stages:
  a: {extends: code, over: [y], timeout: null, resources: null, params: {p: null}}
""")
    assert found.over == ("y",)
    assert (found.timeout, found.resources.ranks) == (None, None)
    assert found.params == {"p": None}


@pytest.mark.parametrize(
    ("below", "above", "module", "command", "shell"),
    [
        ("command: run it, shell: sh", "module: tools.fit", "tools.fit", None, None),
        ("module: tools.fit", "command: [run]", None, ("run",), None),
        ("command: run it, shell: sh", "command: other", None, "other", "sh"),
        ("command: run it, shell: sh", "command: [run]", None, ("run",), None),
    ],
)
def test_what_runs_is_one_thing(
    below: str, above: str, module: object, command: object, shell: object
) -> None:
    found = stage(f"templates: {{code: {{{below}}}}}\nstages: {{a: {{extends: code, {above}}}}}\n")
    assert (found.module, found.command, found.shell) == (module, command, shell)


def test_the_words_of_a_template_stay_as_they_are_written() -> None:
    found = stage(
        "templates: {code: {command: [echo, 1e-3, 007], env: {A: true}}}\nstages: {a: {extends: code}}\n"
    )
    assert found.command == ("echo", "1e-3", "007")
    assert found.env == {"A": "true"}


def test_a_template_is_no_stage_and_anchors_go_on() -> None:
    found = workflow("""
templates: {code: {env: &env {A: x}}}
stages: {a: {extends: code, command: [echo]}, b: {command: [echo], env: *env}}
""")
    assert list(found.stages) == ["a", "b"]
    assert found.stages["b"].env == {"A": "x"}


def test_a_mistake_is_told_where_it_stands_and_once() -> None:
    stages = "".join(f"  s{number}: {{extends: code}}\n" for number in range(30))
    text = f"{HEAD}templates:\n  code:\n    command: [echo]\n    resources: {{ranks: two}}\nstages:\n{stages}"
    with pytest.raises(SpecError) as caught:
        load_text(text, Path("w.yaml"))
    assert [str(one).partition("\n")[0] for one in caught.value.problems] == [
        "w.yaml:6:24: templates.code.resources.ranks: expected a whole number, found 'two'"
    ]


def test_a_long_chain_is_refused_and_not_followed_to_its_end() -> None:
    links = "".join(f"  s{number}: {{extends: s{number + 1}}}\n" for number in range(3000))
    with pytest.raises(SpecError, match="more than 100 stages extend one another"):
        workflow(f"stages:\n{links}  s3000: {{command: [echo]}}\n")


def test_a_template_may_lack_what_the_stages_give_that_extend_it() -> None:
    found = stage("""
templates: {code: {inputs: {x: {min_success: 0.5}}, command: [echo]}}
axes: {i: {range: 3}}
stages:
  a: {extends: code, inputs: {x: {from: b.y}}}
  b: {over: [i], command: [echo], outputs: {y: y.txt}}
""")
    assert (found.inputs["x"].source, found.inputs["x"].min_success) == ("b.y", 0.5)
    with pytest.raises(SpecError) as caught:
        workflow("templates:\n  code: {inputs: {x: {at: 3}}}\nstages: {a: {command: [echo]}}\n")
    assert [one.key for one in caught.value.problems] == ["templates.code.inputs.x.at"]
