"""A file that a command names and no key knows is told, with what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.throwaway import Project

KNOWN = {
    "a rendered file": ("cat in.txt", "files: {i: {template: in.txt}}"),
    "an output": ("echo 1 > made.txt; cat made.txt", "outputs: {o: made.txt}"),
    "what it writes": ("echo 1 | tee made.txt; cat made.txt", ""),
    "a program of the system": ("/bin/cat /etc/hostname", ""),
    "a program of an environment": ("HERE/bin/tool", ""),
    "a file that is given": ("cat HERE/sub/in.txt", "files: {i: sub/in.txt}"),
    "a file of a directory that is given": ("cat HERE/sub/in.txt", "files: {i: sub}"),
    "a word that is no file": ("echo sim -n 3 sub", ""),
    "a value": ("cat ${{ files.i }}", "files: {i: in.txt}"),
}
UNKNOWN = {
    "python sim.py -n 3": ("sim.py", "files: {sim: sim.py}", "command: python ${{ files.sim }} -n 3"),
    "./sim.py": ("./sim.py", "files: {sim: ./sim.py}", "command: ${{ files.sim }}"),
    "python HERE/sim.py": ("HERE/sim.py", "files: {sim: HERE/sim.py}", "command: python ${{ files.sim }}"),
    "cat ~/in.txt": ("HERE/in.txt", "files: {in: HERE/in.txt}", "command: cat ${{ files.in }}"),
    'cat "$HOME/in.txt"': ("HERE/in.txt", "files: {in: HERE/in.txt}", 'command: cat "${{ files.in }}"'),
    "cat <${HOME}/in.txt": ("HERE/in.txt", "files: {in: HERE/in.txt}", "command: cat <${{ files.in }}"),
    "run --in=sub/in.txt": ("sub/in.txt", "files: {in: sub/in.txt}", "command: run --in=${{ files.in }}"),
    "a && (b < 2-d.dat)": (
        "2-d.dat",
        "files: {file_2_d: 2-d.dat}",
        "command: a && (b < ${{ files.file_2_d }})",
    ),
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for name in ("in.txt", "made.txt", "sub/in.txt", "bin/tool", "sim.py", "2-d.dat"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("print(1)\n")
    (tmp_path / "bin" / "tool").chmod(0o755)
    return Project(tmp_path)


def written(project: Project, command: str, more: str = "") -> Project:
    text = f"stages:\n  s:\n    command: {command!r}\n    {more}\n"
    return project.workflow(text.replace("HERE", str(project.folder)))


@pytest.mark.parametrize("case", KNOWN)
def test_what_a_key_knows_is_not_told(project: Project, case: str) -> None:
    assert "warning" not in written(project, *KNOWN[case]).diel("validate", "flow.yaml")


@pytest.mark.parametrize("command", UNKNOWN)
def test_what_no_key_knows_is_told_with_what_to_write(
    project: Project, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("HOME", str(project.folder))
    said = written(project, command).diel("validate", "flow.yaml")
    files, line = (part.replace("HERE", str(project.folder)) for part in UNKNOWN[command][1:])
    assert [one for one in UNKNOWN[command] if one.replace("HERE", str(project.folder)) not in said] == []
    taken = (
        f"stages:\n  s:\n    {files}\n    {line.replace('command: ', 'command: |' + chr(10) + '      ')}\n"
    )
    assert "warning" not in project.workflow(taken).diel("validate", "flow.yaml"), "the advice holds"


@pytest.mark.parametrize("place", ["", "HERE/"])
def test_values_of_an_axis_that_are_files_are_told(project: Project, place: str) -> None:
    text = """
        axes: {p: {values: [PLACEin.txt, PLACEmade.txt]}}
        stages: {s: {over: [p], command: 'cat ${{ p }}'}}
    """.replace("PLACE", place.replace("HERE", str(project.folder)))
    said = project.workflow(text).diel("validate", "flow.yaml")
    assert "'p' names files, as '" in said
    assert 'files: {p: "${{ p }}"}' in said
    more = text.replace("${{ p }}'", "${{ files.p }}', files: {p: '${{ p }}'}")
    assert "warning" not in project.workflow(more).diel("validate", "flow.yaml")


def test_plan_and_run_tell_it_too_and_so_does_the_failure(project: Project) -> None:
    written(project, "python sim.py")
    for words, code in ((("plan", "flow.yaml"), 0), (("run", "flow.yaml"), 1)):
        assert "warning: flow.yaml:5" in project.diel(*words, code=code)
    told = "'sim.py' lies beside the workflow, and a task works in a directory of its own: write files: {sim: sim.py}"
    assert project.newest().failure("s")["headline"].startswith(told)
    said = written(project, "python ${{ files.sim }}", "files: {sim: sim.py}").diel("run", "flow.yaml")
    assert "warning" not in said


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("export: in1.txt", "'in1.txt' is files.i of 'read'"),
        ("export: seen.txt", "'seen.txt' is read by the command of 'see'"),
        ("export: modules/x.py", "'modules/x.py' is in the directory of the modules"),
    ],
)
def test_no_export_replaces_what_the_workflow_reads(tmp_path: Path, more: str, told: str) -> None:
    project = Project(tmp_path).workflow(f"""
        axes: {{m: {{values: [1, 2]}}}}
        stages:
          read: {{over: [m], command: 'cat ${{{{ files.i }}}}', files: {{i: "in${{{{ m }}}}.txt"}}}}
          see: {{command: [cat, seen.txt]}}
          make: {{command: 'echo made > o', outputs: {{o: {{path: o, {more}}}}}}}
    """)
    for name in ("in1.txt", "in2.txt", "seen.txt"):
        (tmp_path / name).write_text("mine")
    assert told in project.diel("validate", "flow.yaml", code=2)


def test_no_export_replaces_a_file_of_a_point_that_only_the_run_knows(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("""
        axes: {m: {from: points.m}}
        stages:
          points: {command: 'echo "{\\"m\\": [1, 2]}" > $DIEL_RESULT', outputs: {m: {value: list}}}
          read: {over: [m], command: 'cat ${{ files.i }}', files: {i: "in${{ m }}.txt"}}
          make: {command: 'echo made > o', after: [read], outputs: {o: {path: o, export: in1.txt}}}
    """)
    for name in ("in1.txt", "in2.txt"):
        (tmp_path / name).write_text("mine")
    assert "in1.txt is not written: it is files.i of read/0" in project.diel("run", "flow.yaml", code=1)
    assert (tmp_path / "in1.txt").read_text() == "mine"


def test_what_scripts_import_and_settings_name_is_told(project: Project) -> None:
    (project.folder / "sim.py").write_text("import json, helper\nfrom lib import deep\n")
    for name in ("helper.py", "lib/__init__.py", "lib/deep.py"):
        (project.folder / name).parent.mkdir(exist_ok=True)
        (project.folder / name).write_text("K = 1\n")
    run = "python ${{ files.sim }}"
    said = written(project, run, "files: {sim: sim.py}").diel("validate", "flow.yaml")
    assert "sim.py imports helper.py, lib/__init__.py, lib/deep.py, which no `files` have" in said
    assert "helper: helper.py" in said
    said = written(project, run, "files: {sim: sim.py, helper: helper.py, lib: lib}").diel(
        "validate", "flow.yaml"
    )
    assert "warning" not in said
    for key in ("env", "params"):
        said = written(project, "true", f"{key}: {{F: HERE/in.txt}}").diel("validate", "flow.yaml")
        assert f"'{project.folder}/in.txt' is in no `files`" in said
        more = f"{key}: {{F: HERE/in.txt}}, files: {{i: in.txt}}".replace("}, files", "}\n    files")
        assert "warning" not in written(project, "true", more).diel("validate", "flow.yaml")


def test_programs_that_path_finds_below_the_workflow_are_told(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "bin:venv/bin:/usr/bin:/bin")
    for name in ("venv/pyvenv.cfg", "venv/bin/other"):
        (project.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (project.folder / name).write_text("#!/bin/sh\n")
    (project.folder / "venv/bin/other").chmod(0o755)
    for words in ("validate", "plan"):
        said = written(project, "X=1 tool -n 3; other").diel(words, "flow.yaml")
        assert "'tool' is bin/tool, which PATH finds and which is in no `files`" in said
        assert "files: {tool: bin/tool}\n    command: X=1 ${{ files.tool }} -n 3; other" in said
        assert "'other'" not in said
    written(project, "${{ files.tool }} -n 3; other", "files: {tool: bin/tool}")
    assert "warning" not in project.diel("validate", "flow.yaml")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    more = "env: {PATH: 'HERE/bin:/usr/bin:/bin'}"
    assert "'tool' is bin/tool" in written(project, "tool", more).diel("validate", "flow.yaml")


def test_what_pythonpath_finds_below_the_workflow_is_told(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lib/h.py", "lib/deep/__init__.py", "lib/deep/__main__.py"):
        (project.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (project.folder / name).write_text("import h\n" if "__" in name else "")
    more = "env: {PYTHONPATH: 'HERE/lib:/usr/lib'}"
    said = written(project, "./run", more).diel("validate", "flow.yaml")
    assert "flow.yaml:6:23: stages.s.env.PYTHONPATH: PYTHONPATH names lib, which no `files` have" in said
    more = "files: {lib: lib}\n    env: {PYTHONPATH: '${{ files.lib }}'}"
    assert "warning" not in written(project, "python -m h", more).diel("validate", "flow.yaml")
    monkeypatch.setenv("PYTHONPATH", "lib")
    for command in ("python -m deep", 'python -c "import deep.__main__"'):
        said = written(project, command).diel("validate", "flow.yaml")
        assert "the command imports lib/deep/__init__.py, lib/h.py, lib/deep/__main__.py, which no" in said
        assert "warning" not in written(project, command, "files: {l: lib}").diel("validate", "flow.yaml")
    (project.folder / "sim.py").write_text("import h\n")
    said = written(project, "python ${{ files.sim }}", "files: {sim: sim.py}").diel("validate", "flow.yaml")
    assert "sim.py imports lib/h.py, which no `files` have" in said


def test_what_pythonpath_names_as_advised_is_in_the_key(project: Project) -> None:
    (project.folder / "lib").mkdir()
    (project.folder / "lib/h.py").write_text("print('{\"v\": 1}')\n")
    project.workflow("""
        stages:
          s:
            command: python -m h > $DIEL_RESULT
            env: {PYTHONPATH: "${{ files.lib }}"}
            files: {lib: lib}
            outputs: {v: {value: int}}
        """)
    assert project.run().value("s", "v") == 1
    assert project.run().counts("s") == {"cached": 1}
    (project.folder / "lib/h.py").write_text("print('{\"v\": 2}')\n")
    assert project.run().value("s", "v") == 2
