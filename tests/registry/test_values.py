"""Values of hyperparameters: a setting beats a file, a file the project, and the project the default."""

from __future__ import annotations

from pathlib import Path

import pytest

from diel.errors import SpecError, UsageError
from diel.load import Document, load_text
from diel.registry import Change, append_change, current, read_changes, resolve, typed
from diel.spec import Hyperparameter, Violations

TEXT = """diel: 1
name: test
hyperparameters:
  hidden: {type: int, default: 64, low: 8, high: 256}
  rate: {type: float, default: 1, low: 1e-5, high: 1}
  optimiser: {type: choice, choices: [adam, sgd, 3], default: adam}
  label: {type: str, default: run}
  verbose: {type: bool, default: false}
  unset: {type: float}
stages:
  a: {command: [echo, hello]}
"""


@pytest.fixture
def document() -> Document:
    return load_text(TEXT, Path("w.yaml"))


def test_defaults_hold_where_nothing_else_is_said(document: Document) -> None:
    found = resolve(document)
    assert found.plain() == {"hidden": 64, "rate": 1.0, "optimiser": "adam", "label": "run", "verbose": False}
    assert isinstance(found.values["rate"].value, float)
    assert found.values["hidden"].origin == "default"
    assert found.values["hidden"].source == "w.yaml:4"


def test_a_setting_beats_a_later_file_beats_an_earlier_one(document: Document, tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.json"
    first.write_text("hp.hidden: 10\nrate: 0.5\nlabel: first\n", encoding="utf-8")
    second.write_text('{"rate": 0.25, "label": "second"}', encoding="utf-8")
    found = resolve(document, ["hp.label=third"], [first, second])
    assert found.plain() == {
        "hidden": 10,
        "rate": 0.25,
        "optimiser": "adam",
        "label": "third",
        "verbose": False,
    }
    assert found.values["hidden"].source == f"{first}:1"
    assert found.values["rate"].origin == "file"
    assert (found.values["label"].origin, found.values["label"].source) == (
        "command line",
        "--set hp.label=third",
    )


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("hp.hidden=32", "hidden", 32),
        ("rate=1e-3", "rate", 1e-3),
        ("rate=1", "rate", 1.0),
        ("optimiser=sgd", "optimiser", "sgd"),
        ("optimiser=3", "optimiser", 3),
        ("label=a=b", "label", "a=b"),
        ("label=007", "label", "007"),
        ("label=", "label", ""),
        ("verbose=true", "verbose", True),
        ("unset=2.5", "unset", 2.5),
    ],
)
def test_a_setting_is_read_as_its_type_wants(
    document: Document, setting: str, name: str, value: object
) -> None:
    found = resolve(document, [setting]).values[name].value
    assert found == value
    assert type(found) is type(value)


def test_the_last_of_two_settings_holds(document: Document) -> None:
    assert resolve(document, ["hidden=9", "hidden=10"]).plain()["hidden"] == 10


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("hp.hiden=3", r"--set hp.hiden=3: no hyperparameter 'hiden'\n    did you mean 'hidden'\?"),
        ("hidden=1.5", "expected a whole number, found 1.5"),
        ("hidden=many", "expected a whole number, found 'many'"),
        ("hidden=1000", "expected at most 256"),
        ("hidden=" + "9" * 5000, "expected a whole number"),
        ("rate=", "expected a number, found nothing"),
        ("rate=.nan", "expected a finite number, found .nan"),
        ("hidden=007", "expected a number in the usual way, found 007\\n    write 7"),
        ("hidden=0x10", "found 0x10\\n    write 16"),
        ("rate=00.5", "found 00.5\\n    write 0.5"),
        ("verbose=yes", "expected true or false, found 'yes'"),
        ("optimiser=adm", "expected one of adam, sgd, 3"),
        ("hidden", "expected NAME=VALUE"),
        ("=3", "expected NAME=VALUE"),
    ],
)
def test_a_wrong_setting_is_refused(document: Document, setting: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        resolve(document, [setting])
    assert caught.value.exit_code == 2
    assert len(str(caught.value)) < 6000


def test_everything_wrong_in_files_is_told_at_once_with_its_place(document: Document, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("hiden: 3\nhidden: 3\nrate: [1]\nhp.rate: 1\n", encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        resolve(document, [], [path, tmp_path / "missing.yaml"])
    shown = sorted(str(problem).split("\n")[0] for problem in caught.value.problems)
    assert shown == [
        f"{tmp_path}/missing.yaml:1:1: no such file",
        f"{path}:1:1: hiden: no hyperparameter 'hiden'",
        f"{path}:2:9: hidden: expected at least 8 (`low`), found 3",
        f"{path}:3:7: rate: expected a number, found a list",
        f"{path}:4:1: hp.rate: 'rate' is there twice, with and without hp.",
    ]


def test_wrong_settings_and_files_are_told_together(document: Document, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("- hidden\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        resolve(document, ["hidden=x", "rate=7"], [path])
    lines = [line for line in str(caught.value).split("\n") if not line.startswith("    ")]
    assert [line.split(": ")[0] for line in lines] == [f"{path}:1:1", "--set hidden=x", "--set rate=7"]


def test_a_workflow_without_hyperparameters_says_so() -> None:
    bare = load_text("diel: 1\nname: x\nstages: {a: {command: [x]}}\n", Path("w.yaml"))
    assert resolve(bare).values == {}
    with pytest.raises(UsageError, match="the workflow has none"):
        resolve(bare, ["hidden=3"])


# --- the project's values -------------------------------------------------------------------------


def test_a_project_value_beats_the_default_and_files_and_settings_beat_it(
    document: Document, tmp_path: Path
) -> None:
    append_change(tmp_path, Change("set", {"hidden": 16, "rate": 0.5, "label": "mine"}, user="me"))
    file = tmp_path / "p.yaml"
    file.write_text("rate: 0.25\n", encoding="utf-8")
    found = resolve(document, ["label=typed"], [file], current(read_changes(tmp_path)[0]))
    assert (found.plain()["hidden"], found.plain()["rate"], found.plain()["label"]) == (16, 0.25, "typed")
    origins = {name: value.origin for name, value in found.values.items()}
    assert origins["hidden"] == "project"
    assert origins["rate"] == "file"
    assert origins["label"] == "command line"
    assert found.values["hidden"].source == "diel params set, by me"
    assert list(found.values) == ["hidden", "rate", "optimiser", "label", "verbose"]


def test_a_whole_number_of_the_project_is_a_float_where_one_is_wanted(
    document: Document, tmp_path: Path
) -> None:
    append_change(tmp_path, Change("set", {"rate": 1}))
    value = resolve(document, project=current(read_changes(tmp_path)[0])).values["rate"].value
    assert (value, type(value)) == (1.0, float)


def test_a_project_value_that_does_not_fit_is_refused_with_key_bounds_and_the_way_back(
    document: Document, tmp_path: Path
) -> None:
    promotion = Change("promotion", {"hidden": 1000, "other": 1}, run="x-3", axis="trial", trial=7)
    append_change(tmp_path, promotion)
    project = current(read_changes(tmp_path)[0])
    with pytest.raises(SpecError) as caught:
        resolve(document, project=project, takes_back=" --runs there")
    (problem,) = caught.value.problems
    assert (problem.key, problem.line) == ("hyperparameters.hidden", 4)
    assert "expected at most 256 (`high`), found 1000 (promotion of x-3, trial 7)" in problem.message
    assert "`diel params set hidden --unset --runs there`" in problem.hint
    assert resolve(document, ["hidden=32"], project=project).plain()["hidden"] == 32


def test_a_text_that_is_spelled_as_another_choice_is_set_and_shown_in_quotes() -> None:
    spec = Hyperparameter.model_validate({"type": "choice", "choices": [1, "1", 2.5, True, "true", "a"]})
    read = {text: typed(spec, text) for text in ("1", '"1"', "2.5", "true", '"true"', "a", '"a"')}
    assert {text: (type(value), value) for text, value in read.items()} == {
        "1": (int, 1),
        '"1"': (str, "1"),
        "2.5": (float, 2.5),
        "true": (bool, True),
        '"true"': (str, "true"),
        "a": (str, "a"),
        '"a"': (str, "a"),
    }
    with pytest.raises(Violations, match='expected one of 1, "1", 2.5, true, "true", a, found'):
        typed(spec, "b")
