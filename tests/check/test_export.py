"""Exports: no two tasks or outputs write the same file, and none writes over the workflow's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.asking import checked, the_problem

FLOW = """
hyperparameters: {{k: {{type: int, default: 3}}}}
axes:
  m: {{values: [si, ge]}}
  x: {{range: 2}}
  z: {{zip: {{p: [1, 1], q: [2, 3]}}}}
  one: {{values: [5]}}
  late: {{from: first.rows}}
stages:
  first: {{command: [echo], outputs: {{rows: rows.csv}}}}
  a: {{command: [echo], over: [{over}], files: {{own: own.txt}}, outputs: {{o: {{path: o.csv, export: "{path}"}}}}}}
"""


@pytest.fixture(autouse=True)
def own(folder: Path) -> None:
    (folder / "own.txt").touch()


@pytest.mark.parametrize(
    ("over", "path"),
    [
        ("m, x", "r/${{ m }}-${{ x }}.csv"),
        ("m, x", "r/${{ m }}/${{ task.index }}"),
        ("one", "r.csv"),
        ("z", "${{ q + hp.k }}"),
        ("late", "${{ name }}.csv"),
        ("m", "../r/${{ m }}/"),
    ],
)
def test_each_task_has_a_path_of_its_own(folder: Path, over: str, path: str) -> None:
    checked(folder, FLOW.format(over=over, path=path))


@pytest.mark.parametrize(
    ("over", "path", "message", "hint"),
    [
        ("m, x", "r.csv", "'r.csv' is written by 4 tasks", "put ${{ m }} and ${{ x }} in it"),
        ("m, x", "${{ m }}", "'${{ m }}' is written by 2 tasks", "put ${{ x }} in it"),
        ("late", "r.csv", "'r.csv' is written by several tasks", "put ${{ late }} in it"),
        (
            "z",
            "${{ p }}",
            "'${{ p }}' is written by several tasks: points of 'z' have the same p",
            "${{ q }}",
        ),
        (
            "x",
            "${{ x // 2 }}",
            "'0' is written by several tasks",
            "the values x=1 and x=0 give the same path",
        ),
        ("one", "own.txt", "'own.txt' is files.own of 'a'", "export to another path"),
        ("m", "own.txt/${{ m }}", "'own.txt/si' is files.own of 'a'", "export to another path"),
    ],
)
def test_a_path_that_is_taken_is_told(folder: Path, over: str, path: str, message: str, hint: str) -> None:
    problem = the_problem(folder, FLOW.format(over=over, path=path))
    assert problem.message == message
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("inner.yaml", "a workflow that this one reads"),
        ("modules/m.py", "module 'm'"),
        ("needs.txt", "what environment 'e' is made of"),
        ("prefix/bin/tool", "what environment 'f' is made of"),
        ("image.sif", "what environment 'g' is made of"),
    ],
)
def test_nothing_is_written_over_what_a_workflow_is_made_of(folder: Path, path: str, what: str) -> None:
    (folder / "inner.yaml").write_text("diel: 1\nname: inner\nstages: {s: {command: ['true']}}\n")
    (folder / "modules").mkdir(exist_ok=True)
    (folder / "modules" / "m.py").write_text(
        "import diel\n@diel.module(kind='analysis')\ndef f():\n    return {}\n"
    )
    problem = the_problem(
        folder,
        f"""
        include: {{i: inner.yaml}}
        environments: {{e: {{python: needs.txt}}, f: {{conda: prefix}}, g: {{container: ./image.sif}}}}
        stages:
          a: {{command: [echo], outputs: {{o: {{path: o.csv, export: "{path}"}}}}}}
          b: {{module: m}}
        """,
    )
    assert (problem.message, problem.hint) == (f"'{path}' is {what}", "export to another path")


def test_two_includes_that_write_one_file_learn_how_to_tell_them_apart(folder: Path) -> None:
    (folder / "inner.yaml").write_text(
        "diel: 1\nname: inner\nstages: {s: {command: [echo], outputs: {o: {path: o.csv, export: o.csv}}}}\n"
    )
    problem = the_problem(folder, "include: {i: inner.yaml, j: inner.yaml}\n")
    assert problem.message == "'o.csv' is written by 'i.s.o' too"
    change = problem.hint.partition("or one none: ")[2]
    assert change == "stages: {s: {outputs: {o: {export: null}}}}"
    checked(folder, f"include: {{i: inner.yaml, j: {{file: inner.yaml, {change}}}}}\n")


@pytest.mark.parametrize(
    "output",
    [
        '{path: "${{ m }}.csv", export: r/}',
        '{glob: "${{ m }}-*.xyz", export: r}',
        '{path: o.csv, export: "r/${{ m == \'si\' }}"}}, when: "${{ x == 1 }}", env: {A: B',
    ],
)
def test_names_may_tell_files_apart_and_conditions_leave_tasks_out(folder: Path, output: str) -> None:
    over = "m, x" if "when" in output else "m"
    checked(
        folder,
        f"""
        axes: {{m: {{values: [si, ge]}}, x: {{range: 2}}}}
        stages: {{a: {{command: [echo], over: [{over}], outputs: {{o: {output}}}}}}}
        """,
    )
