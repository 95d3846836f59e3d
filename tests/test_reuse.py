"""A workflow that includes another runs, is resumed and gives results as one that was written in one file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.throwaway import Project

RELAX = """diel: 1
name: relax
hyperparameters: {cutoff: {type: int, default: 40}}
axes: {strain: {values: [1, 2]}}
stages:
  scf:
    over: [strain]
    files: {pot: pot.dat}
    command: cat ${{ files.pot }} && echo '{"energy":' ${{ strain * hp.cutoff }} '}' > "$DIEL_RESULT"
    outputs: {energy: {value: int}}
  sum:
    command: echo '{"sum":' ${{ sum(scf.energy) + hp.cutoff }} '}' > "$DIEL_RESULT"
    outputs: {sum: {value: int}}
"""
OUTER = """
axes: {s: {values: [5, 6]}}
include:
  one: sub/relax.yaml
  two: {file: sub/relax.yaml, axes: {strain: s}, hyperparameters: {cutoff: 10}}
stages:
  report:
    over: [s]
    command: echo '{"all":' ${{ two.scf.energy + one.sum.sum }} '}' > "$DIEL_RESULT"
    outputs: {all: {value: int}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "relax.yaml").write_text(RELAX)
    (tmp_path / "sub" / "pot.dat").write_text("a potential\n")
    return Project(tmp_path).workflow(OUTER)


def test_the_example_of_the_reference_runs(root: Path, tmp_path: Path) -> None:
    page = (root / "docs/workflow-file.md").read_text("utf-8").partition("## include: ")[2]
    inner, outer = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[:2]
    (tmp_path / "relax.yaml").write_text(inner)
    project = Project(tmp_path, "twice").workflow(outer.removeprefix("diel: 1\nname: twice\n"))
    run = project.run("--set", "hp.fine.cutoff=100")
    assert run.values("fine.scf", "energy") == pytest.approx([-0.0096, -0.01, -0.0096])
    assert project.diel("logs", "last", "compare/0").split()[-1] == "100"


def test_included_stages_run_under_their_names_and_are_read_by_them(project: Project) -> None:
    run = project.run("--set", "hp.one.cutoff=1")
    assert run.values("report", "all") == [50 + 4, 60 + 4]
    assert (run.root / "tasks" / "one.scf").is_dir()
    assert "a potential" in project.diel("logs", "last", "two.scf/1")
    assert project.diel("results", "two.scf.energy", "--csv") == "s,two.scf.energy\n5,50\n6,60\n"
    assert json.loads(project.diel("results", "one.sum", "--json"))["rows"][0]["one.sum.sum"] == 4
    assert "one.scf" in project.diel("graph", "flow.yaml", "--format", "dot")
    assert "two.scf/1" in project.diel("explain", "last", "two.scf/1")


def test_a_task_is_the_same_work_as_in_its_own_workflow(project: Project) -> None:
    project.diel("run", "sub/relax.yaml")
    run = project.run()
    assert run.counts("one.scf") == {"cached": 2}
    assert run.counts("one.sum") == {"cached": 1}
    assert run.counts("two.scf") == {"done": 2}


NAMES = """
hyperparameters: {cutoff: {type: int, default: 1}}
include: {one: sub/inner.yaml}
stages: {b: {extends: one.a}, c: {command: ["true"], after: [one.a]}}
"""


def test_a_name_of_each_workflow_counts_though_they_are_alike(project: Project) -> None:
    (project.folder / "sub" / "inner.yaml").write_text(
        "diel: 1\nname: inner\nhyperparameters: {cutoff: {type: int, default: 7}}\n"
        "stages: {a: {command: 'echo said $OUTER ${{ hp.cutoff }}'}}\n"
    )

    def said(env: str, *settings: str) -> str:
        inner = f"one: {{file: sub/inner.yaml, stages: {{a: {{env: {{OUTER: '{env}'}}}}}}}}"
        run = project.workflow(NAMES.replace("one: sub/inner.yaml", inner)).run(*settings)
        assert run.counts("one.a") == {"done": 1}, "nothing else has its key"
        return run.stdout("one.a")

    assert "said 1 7" in said("${{ hp.cutoff }}")
    assert "said 2 7" in said("${{ hp.cutoff }}", "--set", "hp.cutoff=2")
    both = "--set", "hp.cutoff=2", "--set", "hp.one.cutoff=2"
    assert "said 2:2 2" in said("${{ hp.one.cutoff }}:${{ hp.cutoff }}", *both)


def test_a_template_has_the_names_of_each_stage_that_uses_it_when_its_run_goes_on(project: Project) -> None:
    deck = RELAX.replace("    files: {pot: pot.dat}", "    files: {pot: {template: deck.in}}")
    (project.folder / "sub" / "relax.yaml").write_text(deck)
    (project.folder / "sub" / "deck.in").write_text("cutoff ${{ hp.cutoff }}\n")
    project.workflow(f"""
        include: {{one: sub/relax.yaml, two: {{file: sub/relax.yaml, hyperparameters: {{cutoff: 7}}}}}}
        stages:
          gate: {{command: test -e {project.folder}/now}}
          a: {{extends: one.scf, after: [gate]}}
          b: {{extends: two.scf, after: [gate]}}
        """).run(code=1)
    (project.folder / "now").touch()
    project.diel("resume")
    run = project.newest()
    assert (run.stdout("a"), run.stdout("b")) == ("cutoff 40\n", "cutoff 7\n")


def test_a_run_goes_on_as_it_was_when_what_it_includes_has_changed_or_is_gone(project: Project) -> None:
    inner = project.folder / "sub" / "relax.yaml"
    inner.write_text(
        RELAX.replace("cat ", "test -e go && cat ").replace("test", f"cd {project.folder} && test")
    )
    run = project.run(code=1)
    assert run.counts("one.scf") == {"failed": 2}
    inner.unlink()
    (project.folder / "go").touch()
    assert "one.sum" in project.diel("status", "last", code=None)
    project.diel("resume", "last")
    assert project.newest().id == run.id
    assert run.values("report", "all") == [50 + 160, 60 + 160]
    assert "no such file" in project.diel("validate", "flow.yaml", code=2)


def test_what_an_included_workflow_fills_in_and_sets_up_is_its_own(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("""
        axes: {s: {values: [A, B]}}
        include:
          one: sub/fill.yaml
          two: {file: sub/fill.yaml, axes: {m: s}, hyperparameters: {cutoff: 99}}
    """)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "in.txt").write_text("${{ m }} ${{ hp.cutoff }} ${{ prepare.a }}\n")
    (tmp_path / "sub" / "fill.yaml").write_text("""diel: 1
name: fill
hyperparameters: {cutoff: {type: int, default: 30}}
axes: {m: {values: [Si, Ge]}}
environments: {code: {variables: {GREETING: hello}}}
stages:
  prepare:
    command: echo '{"a":' 5 '}' > "$DIEL_RESULT"
    outputs: {a: {value: int}}
  fill:
    over: [m]
    environment: code
    files: {input: {template: in.txt}}
    command: cat in.txt && echo $GREETING
""")
    project.diel("run", "sub/fill.yaml")
    run = project.run()
    assert run.counts("one.fill") == {"cached": 2}
    assert project.diel("logs", "last", "two.fill/1") == "B 99 5\nhello\n"
    with (tmp_path / "sub" / "in.txt").open("a") as file:
        file.write("and ${{ m }} ${{ hp.cutof }}\n")
    said = project.diel("validate", "flow.yaml", code=2)
    assert re.findall(r"sub/in\.txt:\d+:\d+", said) == ["sub/in.txt:2:18"]
    assert "done" in project.diel("explain", "last", "two.fill/1")


def test_environments_of_two_files_are_told_apart_or_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(
            f"diel: 1\nname: {name}\nenvironments: {{code: {{variables: {{X: {name}}}}}}}\n"
            "stages: {s: {environment: code, command: echo $X}}\n"
        )
    project = Project(tmp_path).workflow("include: {one: a.yaml, two: b.yaml}\n")
    assert "environment 'code' is defined in b.yaml and in a.yaml" in project.diel(
        "validate", "flow.yaml", code=2
    )
    project.workflow(
        "include: {one: a.yaml, two: b.yaml}\nenvironments: {code: {variables: {X: mine}}}\n"
    ).run()
    assert project.diel("logs", "last", "two.s") == "mine\n"
