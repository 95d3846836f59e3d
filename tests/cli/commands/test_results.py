"""`diel results` and `diel report`."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import pytest

from diel.cli import main
from tests.cli.call import call
from tests.handmade import Handmade
from tests.searched import loop, search

Capture = pytest.CaptureFixture[str]


FLOW = """
axes: {t: {values: [cold, "very, hot", mild]}}
stages:
  sim: {over: [t], command: [x], outputs: {e: {value: float}, log: log.txt}}
  end: {command: [x], outputs: {n: {value: int}}}
"""


@pytest.fixture
def run(workspace: Path) -> Handmade:
    run = Handmade(workspace, FLOW).stage("sim", 3).stage("end", 1)
    return run.done("sim", 0, {"log": "x"}, e=0.125).done("sim", 1, {"log": "y"}, e=math.nan).failed("sim", 2)


def test_a_table_is_printed_and_what_is_missing_counted_on_stderr(run: Handmade, capsys: Capture) -> None:
    said = call(capsys, "results", "last", "sim.e")
    assert said.code == 0
    assert said.out.splitlines() == [
        "t          sim.e",
        "─────────  ─────",
        "cold       0.125",
        "very, hot    nan",
    ]
    assert said.err == "1 of 3 tasks of 'sim' have no result: 1 failed\n"


def test_the_run_may_be_left_out(run: Handmade, capsys: Capture) -> None:
    assert call(capsys, "results", "sim.e").out == call(capsys, "results", "w-1", "sim.e").out


def test_files_are_told_from_here(run: Handmade, capsys: Capture) -> None:
    assert "runs/w-1/tasks/sim/0/log.txt" in call(capsys, "results", "sim.log").out.split()


def test_csv_has_whole_values_and_absolute_paths(run: Handmade, capsys: Capture) -> None:
    header, first, second = csv.reader(io.StringIO(call(capsys, "results", "sim", "--csv").out))
    assert header == ["t", "sim.e", "sim.log"]
    assert first[:2] == ["cold", "0.125"]
    assert second[0] == "very, hot"
    assert Path(first[2]).read_text() == "x"
    assert Path(first[2]).is_absolute()


def test_json_is_strict_and_counts_what_is_missing(run: Handmade, capsys: Capture) -> None:
    text = call(capsys, "results", "sim.e", "--json").out
    document = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert document["columns"] == ["t", "sim.e"]
    assert document["rows"] == [{"t": "cold", "sim.e": 0.125}, {"t": "very, hot", "sim.e": "NaN"}]
    assert document["run"] == "w-1"
    assert list(document["missing"]) == ["sim"]


def test_parquet_writes_a_file(run: Handmade, capsys: Capture) -> None:
    said = call(capsys, "results", "sim.e", "--parquet", "t.parquet")
    assert said.out == "t.parquet: 2 rows of t, sim.e\n"
    assert Path("t.parquet").stat().st_size > 100


def test_without_a_name_the_outputs_that_there_are_are_listed(run: Handmade, capsys: Capture) -> None:
    lines = call(capsys, "results").out.splitlines()
    assert lines[2].split() == ["sim.e", "t", "2", "of", "3", "0.125"]
    assert lines[-1] == "see one with `diel results w-1 sim.e`"


def test_a_run_without_results_says_so(workspace: Path, capsys: Capture) -> None:
    Handmade(workspace, FLOW).stage("sim", 3)
    assert "w-1 (interrupted) has no results yet" in call(capsys, "results").out


def test_a_limit_prints_the_first_rows(run: Handmade, capsys: Capture) -> None:
    assert len(call(capsys, "results", "sim.e", "--limit", "1").out.splitlines()) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["end.n"], "'end' has no results (1 waiting)"),
        (["w-7", "sim.e"], "no run 'w-7'"),
        (["sim.e", "--csv", "--json"], "choose one"),
        (["sim", "--usage", "--trials"], "--usage and --trials are tables of their own: choose one"),
        (["last", "--trials"], "no axis of its workflow is a search"),
        (["sim.e", "--limit", "0"], "--limit"),
    ],
)
def test_what_cannot_be_printed_is_told(
    run: Handmade, capsys: Capture, words: list[str], message: str
) -> None:
    said = call(capsys, "results", *words)
    assert said.code == 2
    assert message in said.err


def test_a_value_that_is_no_utf8_is_printed_byte_for_byte_as_csv(
    workspace: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    Handmade(workspace, FLOW).stage("end", 1).done("end", 0, n="\udcff")
    with pytest.raises(SystemExit):
        main(["results", "end.n", "--csv"])
    assert capfdbinary.readouterr().out == b"end.n\n\xff\n"


def test_json_before_any_result_is_an_empty_document(workspace: Path, capsys: Capture) -> None:
    Handmade(workspace, FLOW).stage("sim", 3)
    said = call(capsys, "results", "last", "sim.e", "--json")
    assert said.code == 0
    assert json.loads(said.out) == {
        "run": "w-1",
        "columns": ["t", "sim.e"],
        "rows": [],
        "missing": {"sim": "'sim' has no results yet"},
        "audits": {},
    }
    assert call(capsys, "results", "last", "nosuch.e", "--json").code == 2


def test_it_goes_to_a_file(workspace: Path, capsys: Capture) -> None:
    loop(workspace, over=True)
    said = call(capsys, "report", "--output", "report.md")
    assert (said.code, said.out) == (0, "report.md: the report of w-1\n")
    assert (workspace / "report.md").read_text().startswith("# w-1: succeeded")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--output", "absent/report.md"], 1, "cannot write absent/report.md: No such file or directory"),
        (["w-7"], 2, "no run 'w-7'"),
    ],
)
def test_what_cannot_be_is_told(
    workspace: Path, capsys: Capture, words: list[str], code: int, said: str
) -> None:
    loop(workspace, over=True)
    result = call(capsys, "report", *words)
    assert (result.code, result.out) == (code, "")
    assert said in result.err


def test_metrics_are_printed_as_a_table_and_as_json(run: Handmade, capsys: Capture) -> None:
    folder = run.paths.task_dir("sim", 2, 1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".metrics.jsonl").write_text('{"step": 5, "loss": 0.25}\n{"step": 6, "loss": NaN}\n')
    said = call(capsys, "results", "last", "sim", "--metrics", "--limit", "1")
    assert said.out.splitlines()[2].split() == ["sim/2", "mild", "1", "loss", "5", "0.25"]
    assert said.err == "2 of 3 tasks of 'sim' have reported nothing\n"
    document = json.loads(call(capsys, "results", "sim", "--metrics", "--json").out)
    assert [row["value"] for row in document["rows"]] == [0.25, "NaN"]
    assert call(capsys, "results", "sim", "t=cold", "--metrics").err.startswith("1 of 1 task of 'sim'")


def test_metrics_are_those_of_one_stage(run: Handmade, capsys: Capture) -> None:
    for words in ([], ["sim", "end"]):
        said = call(capsys, "results", "last", *words, "--metrics")
        assert (said.code, said.err) == (
            2,
            "error: --metrics are those of one stage: diel results [RUN] STAGE --metrics\n",
        )


def test_the_trials_of_a_search_are_a_table(workspace: Path, capsys: Capture) -> None:
    search(workspace)
    heads, first = csv.reader(io.StringIO(call(capsys, "results", "--trials", "--csv", "--limit", "1").out))
    assert heads[:4] == ["trial", "state", "f.loss", "hp.x"]
    assert first[:4] == ["0", "complete", "4.0", "2.0"]
    said = call(capsys, "results", "last", "tail", "--trials")
    assert (said.code, "no search 'tail'; did you mean 'trial'?" in said.err) == (2, True)
    assert "3  pruned" in call(capsys, "results", "last", "trial", "--trials").out


def test_points_and_values_that_json_lacks_are_texts_and_can_be_chosen(
    workspace: Path, capsys: Capture
) -> None:
    flow = "axes: {x: {values: [.nan, .inf, -.inf, null]}}\nstages: {a: {over: [x], command: [x]}}"
    run = Handmade(workspace, flow).stage("a", 4)
    for index, value in enumerate((math.inf, math.nan, [-math.inf], None)):
        run.done("a", index, e=value)
    rows = json.loads(call(capsys, "results", "a", "--json").out)["rows"]
    assert [row["x"] for row in rows] == ["NaN", "Infinity", "-Infinity", None]
    assert [row["a.e"] for row in rows] == ["Infinity", "NaN", ["-Infinity"], None]
    for word, index in (("nan", 0), ("NaN", 0), ("inf", 1), ("Infinity", 1), ("-inf", 2), ("null", 3)):
        assert json.loads(call(capsys, "results", "a", f"x={word}", "--json").out)["rows"] == [rows[index]]


@pytest.mark.parametrize("word", ["[1, NaN]", "[1, .nan]", "[1,nan]"])
def test_a_list_that_holds_no_number_is_chosen_as_it_is_shown_or_as_yaml_writes_it(
    workspace: Path, capsys: Capture, word: str
) -> None:
    flow = "axes: {c: {values: [[1, .nan], [1, 2], [.inf, 1]]}}\nstages: {a: {over: [c], command: [x]}}"
    Handmade(workspace, flow).stage("a", 3).done("a", 0, e=1).done("a", 1, e=2).done("a", 2, e=3)
    assert "a/0" in call(capsys, "explain", "a", f"c={word}").out
    (row,) = json.loads(call(capsys, "results", "a", f"c={word}", "--json").out)["rows"]
    assert row["a.e"] == 1
    assert call(capsys, "results", "a", "c=[1, -inf]").code == 2


@pytest.mark.parametrize("command", ["results", "logs", "explain", "path", "cancel"])
def test_two_values_for_one_name_are_refused_with_both(
    workspace: Path, capsys: Capture, command: str
) -> None:
    flow = "axes: {x: {range: 4}}\nstages: {a: {over: [x], command: [x]}}"
    Handmade(workspace, flow).stage("a", 4).done("a", 1, e=1).done("a", 3, e=3)
    for other in ("x=3", "x.x=3"):
        said = call(capsys, command, "last", "a", "x=1", other)
        assert (said.code, f"x=1 and {other} exclude each other" in said.err) == (2, True)
    assert call(capsys, "results", "a", "x=1", "x=1").code == 0
    assert "x=1 and x=3 exclude each other" in call(capsys, "results", "a/1", "a/3").err
