"""One run is one version: what is edited while it goes on, and before it is resumed, mixes no results."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.throwaway import Project, Run

FLOW = """
    axes: {n: {range: 4}}
    stages:
      edit: {command: 'sh $DIEL_RUN_DIR/../../edit.sh'}
      work: {over: [n], module: MODULE, after: [edit], params: {n: "${{ n }}"}}
      again: {over: [n], module: MODULE, after: [work], params: {n: "${{ n }}"}}
"""
MAIN = "import power\ndef run(n: int) -> dict:\n    return {'v': power.of(n)}\n"
POWER = "def of(n): return n**2\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


LAYOUTS = {
    "modules/lab": ("lab:run", {"modules/lab.py": MAIN, "modules/power.py": POWER}),
    "beside": ("lab:run", {"lab.py": MAIN, "power.py": POWER}),
    "package": (
        "pkg.lab:run",
        {"pkg/__init__.py": "", "pkg/lab.py": MAIN.replace("import", "from . import"), "pkg/power.py": POWER},
    ),
    "of a helper": (
        "lab:run",
        {
            "lab.py": MAIN,
            "power.py": "from deep.math import of\n",
            "deep/__init__.py": "",
            "deep/math.py": POWER,
        },
    ),
    "of the package": (
        "pkg.lab:run",
        {
            "pkg/lab.py": MAIN.replace("import power", "from . import of").replace("power.of", "of"),
            "pkg/__init__.py": POWER,
        },
    ),
    "no package file": (
        "lab:run",
        {"lab.py": MAIN.replace("import power", "import space.power as power"), "space/power.py": POWER},
    ),
    "by a computed name": (
        "lab:run",
        {
            "modules/lab.py": "import importlib\n"
            + MAIN.replace("import power", "").replace(
                "power.of", "importlib.import_module('po' + 'wer').of"
            ),
            "modules/power.py": POWER,
        },
    ),
    "on sys.path": (
        "lab:run",
        {
            "lab.py": "import sys, os\nsys.path.insert(0, os.path.dirname(__file__) + '/lib')\n" + MAIN,
            "lib/power.py": POWER,
        },
    ),
    "in the function": (
        "lab:run",
        {
            "modules/lab.py": "def run(n: int) -> dict:\n    import power\n    return {'v': power.of(n)}\n",
            "modules/power.py": POWER,
        },
    ),
    "a link": ("lab:run", {"lab.py": MAIN, "power.py": "-> there/power.py", "there/power.py": POWER}),
}
EDITS = {
    "rewritten": "sed -i 's/[*][*]2/**3/' {path}",
    "same times and size": "cp -p {path} /tmp/none-$$; sed 's/[*][*]2/**3/' {path} > new; touch -r {path} new; "
    "cat new > {path}; touch -r /tmp/none-$$ {path}; rm /tmp/none-$$",
    "deleted": "rm {path}",
    "broken": "echo 'def of(' > {path}",
}


def laid_out(folder: Path, layout: str) -> tuple[Project, Path]:
    """A project whose modules are laid out so, and the file that all of them rest on."""
    reference, files = LAYOUTS[layout]
    project = Project(folder).workflow(FLOW.replace("MODULE", f'"{reference}"'))
    for name, text in files.items():
        if text.startswith("-> "):
            (folder / name).symlink_to(text.removeprefix("-> "))
        else:
            write(folder / name, text)
    write(folder / "edit.sh", "true\n")
    return project, folder / next(name for name, text in reversed(files.items()) if text == POWER)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("edit", ["rewritten", "deleted"])
def test_a_source_that_is_edited_in_mid_run_changes_no_result(tmp_path: Path, layout: str, edit: str) -> None:
    project, path = laid_out(tmp_path, layout)
    write(tmp_path / "edit.sh", EDITS[edit].format(path=path))
    run = project.run("--no-cache")
    assert run.values("work", "v") == run.values("again", "v") == [0, 1, 4, 9]


@pytest.mark.parametrize("edit", ["rewritten", "same times and size"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_source_that_was_edited_gives_other_results(tmp_path: Path, layout: str, edit: str) -> None:
    project, path = laid_out(tmp_path, layout)
    assert project.run().values("work", "v") == [0, 1, 4, 9]
    os.system(f"cd {tmp_path}; {EDITS[edit].format(path=path)}")
    assert project.run().values("work", "v") == [0, 1, 8, 27]


def test_tracebacks_show_the_lines_that_ran(tmp_path: Path) -> None:
    project, path = laid_out(tmp_path, "beside")
    write(path, "def of(n):\n    raise ValueError('that line')\n")
    write(tmp_path / "edit.sh", f"printf '\\n\\n\\n# another line\\n' > {path}")
    run = project.run(code=1)
    said = run.root.joinpath("tasks", "work", "0", "stderr").read_text("utf-8")
    assert f"{path}\", line 2, in of\n    raise ValueError('that line')" in said, said


FILES = """
    axes: {m: {range: 4}}
    stages:
      work:
        over: [m]
        files: {script: sim.sh, own: "in${{ m }}.txt", folder: data}
        command: |
          sh $DIEL_RUN_DIR/../../edit.sh ${{ m }}
          echo "{\\"v\\": $(sh ${{ files.script }} ${{ files.own }} ${{ files.folder }})}" > "$DIEL_RESULT"
        outputs: {v: {value: int}}
        resources: {cores_per_rank: 2}
      other: {over: [m], command: ["true"], after: [start]}
      start: {command: ["true"]}
"""
TOUCHED = {
    "a script": ("sim.sh", "echo 'echo 999' > {path}"),
    "a script's times": ("sim.sh", "touch -r {path} ../t; sed -i s/cat/tac/ {path}; touch -r ../t {path}"),
    "in place": (
        "sim.sh",
        "cp -p {path} ../x; sed -i s/cat/tac/ ../x; touch -r {path} ../x; cp -p ../x {path}",
    ),
    "undone": ("sim.sh", "cp {path} ../x; echo 'echo 999' > {path}; sh {path}; cp ../x {path}"),
    "a point's file": ("in1.txt", "echo 999 > {path}"),
    "a folder's file": ("data/deep/b", "echo 999 > {path}"),
    "deleted": ("data/deep/b", "rm {path}"),
}


def with_files(folder: Path) -> Project:
    project = Project(folder).workflow(FILES).machine("one", 2)
    write(folder / "sim.sh", "cat $1 $2/deep/b | paste -sd+ | bc\n")
    for m in range(4):
        write(folder / f"in{m}.txt", f"{m}\n")
    write(folder / "data/deep/b", "10\n")
    write(folder / "edit.sh", "true\n")
    return project


@pytest.mark.parametrize("touched", TOUCHED)
def test_a_file_that_is_edited_in_mid_run_fails_its_readers(tmp_path: Path, touched: str) -> None:
    project = with_files(tmp_path)
    name, edit = TOUCHED[touched]
    path = tmp_path / name
    write(tmp_path / "edit.sh", f"test $1 != 1 || {{ {edit.format(path=path)}; }}\n")
    run = project.run("--site", "one", code=1)
    failed = run.records("failed", "work")
    assert {record["class"] for record in failed} == {"changed"}
    assert all(str(path).startswith(record["message"].split()[1]) for record in failed)
    assert run.counts("work")["done"] == 1
    assert run.counts("work").get("skipped", 0) + len(failed) == 3
    assert run.counts("other") == {"done": 4}
    assert set(run.results("work")) == {0}
    assert "work is held: files." in project.diel("status")
    assert "--update" in project.diel("explain", run.id, "work/1")


@pytest.mark.parametrize("harmless", ["ln {path} ../more", "touch {path}", "cp {path} new && mv new {path}"])
def test_a_file_with_the_same_content_is_the_same(tmp_path: Path, harmless: str) -> None:
    text = FILES.replace("over: [m]", "over: [m]\n        after: [start]", 1)
    text = text.replace("sh $DIEL_RUN_DIR/../../edit.sh ${{ m }}", "true")
    first = 'start: {command: "sh $DIEL_RUN_DIR/../../edit.sh"}'
    project = with_files(tmp_path).workflow(text.replace('start: {command: ["true"]}', first))
    write(tmp_path / "edit.sh", harmless.format(path=tmp_path / "sim.sh"))
    assert project.run("--site", "one").values("work", "v") == [10, 11, 12, 13]


MENDED = """
    axes: {n: {range: 3}}
    stages:
      work: {over: [n], module: "lab:run", params: {n: "${{ n }}"}}
      shell:
        over: [n]
        files: {script: sim.sh, own: "in${{ n }}.txt", filled: {template: form.txt, path: form.out}}
        command: |
          echo "{\\"v\\": $(sh ${{ files.script }} ${{ files.own }} ${{ files.filled }})}" > "$DIEL_RESULT"
        outputs: {v: {value: int}}
      after: {over: [n], command: 'echo "{\\"s\\": ${{ work.v + shell.v }}}" > "$DIEL_RESULT"', outputs: {s: {value: int}}}
      apart: {command: ["true"]}
"""
BROKEN = "def of(n):\n    if n == 1:\n        raise ValueError\n    return n\n"
MENDS = {
    "a helper": ("power.py", "def of(n):\n    return n + 10\n", "work/0,2", [20, 22, 24]),
    "a script": ("sim.sh", "echo $(( 10 + $(cat $1) + $(cat $2) ))\n", "shell/0,2", [20, 22, 24]),
    "a template": ("form.txt", "10\n", "shell/0,2", [20, 22, 24]),
}


def to_mend(folder: Path, what: str) -> Project:
    """A project whose task 1 fails because of a file."""
    project = Project(folder).workflow(MENDED)
    write(folder / "lab.py", MAIN)
    write(folder / "power.py", BROKEN if what == "a helper" else MENDS["a helper"][1])
    fails = "test $(cat $1) != 1 && cat $1\n"
    write(
        folder / "sim.sh",
        {"a script": fails, "a template": "echo $(( $(cat $1) + $(cat $2) ))\n"}.get(
            what, "echo $(( 10 + $(cat $1) ))\n"
        ),
    )
    write(folder / "form.txt", "none of ${{ n }}\n" if what == "a template" else "0\n")
    if what == "a template":
        write(folder / "sim.sh", 'test $(cat $1) != 1 -o "$(cat $2)" = 10 && echo $(( 10 + $(cat $1) ))\n')
    for n in range(3):
        write(folder / f"in{n}.txt", f"{n}\n")
    return project


@pytest.mark.parametrize("what", MENDS)
def test_what_was_mended_is_taken_for_all_that_read_it_or_refused(tmp_path: Path, what: str) -> None:
    name, text, again, sums = MENDS[what]
    project = to_mend(tmp_path, what)
    run = project.run(code=1)
    before = (tmp_path / name).read_text()
    write(tmp_path / name, text)
    records = run.records()
    said = project.diel("resume", run.id, code=2)
    stage = again.partition("/")[0]
    assert f"{tmp_path / name}" in said
    assert f"(read by {stage})" in said
    assert (
        f"--update` takes it as it is now, and computes again {again}, after/0,2 (4 finished tasks, " in said
    )
    assert run.records() == records

    write(tmp_path / name, before)  # undone: it goes on as it was
    project.diel("resume", run.id, code=1)
    write(tmp_path / name, text)

    said = project.diel("resume", run.id, "--update")
    assert f"computes again {again}, after/0,2 (4 finished tasks, " in said
    assert run.history().state == "succeeded"
    assert newest(run, "after", "s") == sums
    assert run.attempts("apart", 0) == [1]
    assert "nothing to do" in project.diel("resume", run.id, "--update")
    assert project.run().counts("after") == {"cached": 3}


def newest(run: Run, stage: str, value: str) -> list[object]:
    """The values that count by now."""
    table = {record["index"]: record["values"][value] for record in run.records("done", stage)}
    return [table[index] for index in sorted(table)]


def test_what_ended_tasks_alone_read_may_change(tmp_path: Path) -> None:
    text = """
        axes: {n: {range: 3}}
        stages:
          first: {over: [n], module: "lab:run", params: {n: "${{ n }}"}}
          own: {over: [n], files: {f: "in${{ n }}.txt"}, command: [grep, -v, bad, "${{ files.f }}"]}
    """
    project = Project(tmp_path).workflow(text)
    write(tmp_path / "lab.py", MAIN)
    write(tmp_path / "power.py", POWER)
    for n in range(3):
        write(tmp_path / f"in{n}.txt", "bad\n" if n == 1 else "good\n")
    run = project.run(code=1)
    write(tmp_path / "power.py", "def of(n): return -n\n")
    write(tmp_path / "in2.txt", "another\n")
    project.diel("resume", run.id, code=1)
    write(tmp_path / "in1.txt", "mended\n")
    said = project.diel("resume", run.id, code=2)
    assert "files.f" in said
    assert "power.py" not in said
    assert "in1.txt" in said
    said = project.diel("resume", run.id, "--update")
    assert "first/0-2, own/2 (4 finished tasks" in said
    assert newest(run, "first", "v") == [0, -1, -2]


def test_a_run_that_kept_no_sources_goes_on_with_what_is_there_and_says_so(tmp_path: Path) -> None:
    project = to_mend(tmp_path, "a helper")
    run = project.run(code=1)
    shutil.rmtree(run.root / "sources")
    write(tmp_path / "power.py", MENDS["a helper"][1])
    assert "kept no sources: what is left runs with all files as they are now" in project.diel("resume")
    assert run.history().state == "succeeded"


def test_decisions_of_a_search_and_points_of_an_axis_are_not_mixed(tmp_path: Path) -> None:
    text = """
        axes: {p: {from: make.list}}
        stages:
          make: {module: "lab:make"}
          use: {over: [p], module: "lab:use", params: {p: "${{ p }}"}, outputs: {v: {}}}
    """
    project = Project(tmp_path).workflow(text)
    both = "def make() -> dict:\n    return {'list': [1, 2]}\ndef use(p: int) -> dict:\n"
    write(tmp_path / "lab.py", both + "    return {'v': p} if p > 1 else {}\n")
    run = project.run(code=1)
    write(tmp_path / "lab.py", both + "    return {'v': p}\n")
    explained = project.diel("explain", run.id, "use/0")
    assert "fix it, then `diel run flow.yaml`, for the points of 'p' rest on what it changes" in explained
    for words in ((), ("--update",)):
        said = project.diel("resume", run.id, *words, code=2)
        assert "the points of 'p' rest on results of 'make', which would be computed again" in said
        assert "diel run flow.yaml" in said
        assert "--update`" not in said


def test_a_failure_beside_the_results_that_make_an_axis_is_mended_by_another_run(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("""
        axes: {m: {values: [1, 2]}, c: {from: scr.best}}
        stages:
          scr: {over: [m], module: "lab:scr", outputs: {best: {}}}
          use: {over: [c, m], command: 'true ${{ c }}'}
          alone: {over: [m], module: "other:scr", outputs: {best: {}}}
    """)
    scr = "def scr(m: int) -> dict:\n    return {'best': [m]} if m > 1 else {}\n"
    write(tmp_path / "lab.py", scr)
    write(tmp_path / "other.py", scr)
    run = project.run(code=1)
    explained = project.diel("explain", run.id, "scr/0")
    assert "`diel run flow.yaml`, for the points of 'c' rest on what it changes" in explained
    assert "--update" not in explained
    assert f"`diel resume {run.id} --update`" in project.diel("explain", run.id, "alone/0")
    write(tmp_path / "lab.py", scr.replace("m > 1", "m"))
    said = project.diel("resume", run.id, code=2)
    assert "start anew with `diel run flow.yaml`" in said
    assert "--update`" not in said


def test_a_folder_that_holds_the_runs_is_no_file_to_read(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("stages: {a: {files: {code: .}, command: 'ls ${{ files.code }}'}}")
    said = project.diel("run", "flow.yaml", code=2)
    assert f"files.code: {tmp_path} holds the runs, which change all the time" in said
    assert "succeeded" in project.diel("run", "flow.yaml", "--runs", str(tmp_path.parent / "elsewhere"))


def test_explain_tells_the_version_of_a_result(tmp_path: Path) -> None:
    project = to_mend(tmp_path, "a script")
    run = project.run(code=1)
    write(tmp_path / "sim.sh", MENDS["a script"][1])
    project.diel("resume", run.id, "--update")
    version = json.loads(project.diel("explain", run.id, "shell/0", "--json"))["version"]
    assert version["run"] == "version 2"
    assert version["files.script"].startswith(f"{tmp_path}/sim.sh ")
    assert version["files.own"].startswith(f"{tmp_path}/in0.txt ")
    module = json.loads(project.diel("explain", run.id, "work/0", "--json"))["version"]["module"]
    assert module.startswith("lab:run ")
    assert module.endswith(" with 1 more files")


def test_points_of_a_file_are_those_that_the_run_began_with_or_it_is_refused(tmp_path: Path) -> None:
    text = """
        axes: {p: {file: s.csv}}
        stages:
          a: {over: [p], files: {f: ok}, params: {y: "${{ y }}"}, command: 'test $(cat ${{ files.f }}) = 1'}
          b: {files: {f: FILE}, command: 'test -e $DIEL_RUN_DIR/../../go && cat ${{ files.f }}'}
    """
    project = Project(tmp_path).workflow(text.replace("FILE", "s.csv"))
    write(tmp_path / "ok", "1")
    write(tmp_path / "s.csv", "id,y\na,1\nb,2.50\n")
    run = project.run(code=1)
    said = project.diel("resume", run.id, "-q", code=1)
    assert "by now" not in said
    write(tmp_path / "s.csv", "id,y\na,7\nb,2.50\n")
    another = "the points of 'p' come from s.csv, which is another by now"
    said = project.diel("resume", run.id, code=2)
    assert "--update" not in said
    assert (
        f"start anew with `diel run flow.yaml`, which takes from the cache what has not changed: {another}"
        in said
    )
    write(tmp_path / "ok", "1 ")
    records = run.records()
    assert another in project.diel("resume", run.id, "--update", code=2)
    assert run.records() == records

    write(tmp_path / "s.csv", "id,y\na,1\nb,2.50\n")
    project.workflow(text.replace("FILE", "ok"))
    run = project.run(code=1)
    write(tmp_path / "s.csv", "id,y\na,1\n")
    write(tmp_path / "go", "")
    assert f"goes on at the points that it began with: {another}" in project.diel("resume", run.id)
    assert run.counts("a") == {"done": 2}


def test_the_cost_of_an_update_is_that_of_all_that_it_takes(tmp_path: Path) -> None:
    text = """
        stages:
          first: {files: {f: one.txt}, command: 'cat ${{ files.f }}'}
          last: {files: {f: two.txt}, command: 'grep good ${{ files.f }}'}
    """
    project = Project(tmp_path).workflow(text)
    for name in ("one", "two"):
        write(tmp_path / f"{name}.txt", "bad\n")
    run = project.run(code=1)
    for name in ("one", "two"):
        write(tmp_path / f"{name}.txt", "good\n")
    said = project.diel("resume", run.id, code=2)
    assert (
        "takes it and 1 more that finished tasks read as it is now, and computes again first/0 (1 fin" in said
    )
    assert "computes again first/0 (1 finished task" in project.diel("resume", run.id, "--update")


FAILS = """
stages:
  s: {files: {q: q.txt}, command: "cat ${{ files.q }}", outputs: {out: {value: str, match: '(.+)'}}}
  b:
    after: [s]
    files: {d: d.txt, q: q.txt}
    command: "grep bad ${{ files.d }} && exit 3; cat ${{ files.q }}"
    outputs: {out: {value: str, match: '(.+)'}}
"""


def test_a_link_that_leads_elsewhere_by_now_is_another_file(tmp_path: Path) -> None:
    for n in (1, 2):
        write(tmp_path / f"q{n}", f"q{n}\n")
    (tmp_path / "q.txt").symlink_to("q1")
    write(tmp_path / "d.txt", "bad\n")
    project = Project(tmp_path).workflow(FAILS)
    run = project.run(code=1)
    write(tmp_path / "d.txt", "good\n")
    (tmp_path / "q.txt").unlink()
    (tmp_path / "q.txt").symlink_to("q2")
    assert "files.q" in project.diel("resume", run.id, code=2)
    assert "s/0" in project.diel("resume", run.id, "--update")
    assert newest(run, "s", "out") + newest(run, "b", "out") == ["q2", "q2"]


def test_a_file_that_was_read_as_part_of_another_is_the_same_or_refused(tmp_path: Path) -> None:
    text = """
        axes: {row: {file: data/s.csv}}
        stages:
          whole: {files: {d: data}, command: "cat ${{ files.d }}/*"}
          edit: {after: [whole], command: "sh ${{ params.script }}; echo NAME q", params: {script: SCRIPT},
            outputs: {name: {value: str, match: 'NAME (.+)'}}}
          part: {files: {q: "data/${{ edit.name }}.txt"}, command: "cat ${{ files.q }}"}
          same: {files: {q: "data/${{ edit.name }}2.txt"}, command: "cat ${{ files.q }}"}
          same_row: {files: {q: "rows/${{ edit.name }}.csv"}, command: "cat ${{ files.q }}"}
        """
    project = Project(tmp_path).workflow(text.replace("SCRIPT", str(tmp_path / "edit.sh")))
    for name in ("data/q.txt", "data/q2.txt", "data/s.csv"):
        write(tmp_path / name, "v\n1\n")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "q.csv").symlink_to("../data/s.csv")
    write(tmp_path / "edit.sh", f"cd {tmp_path}/data; sed -i s/1/2/ q.txt s.csv\n")
    run = project.run(code=1)
    for stage in ("part", "same_row"):
        assert run.failure(stage)["class"] == "changed"
    assert run.stdout("same") == "v\n1\n"


SPAWNS = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from power import of


def run(n: int) -> dict:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return {"v": [of(n), *pool.map(of, [n])]}
"""


def test_processes_of_a_function_run_no_other_version_than_it(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(FLOW.replace("MODULE", '"lab:run"'))
    write(tmp_path / "lab.py", SPAWNS)
    write(tmp_path / "power.py", POWER)
    write(tmp_path / "edit.sh", "true\n")
    assert project.run("--no-cache").values("work", "v") == [[n**2] * 2 for n in range(4)]
    write(tmp_path / "edit.sh", f"sed -i 's/[*][*]2/**3/' {tmp_path}/power.py\n")
    run = project.run("--no-cache", code=1)
    assert run.failure("work")["class"] == "changed"


@pytest.mark.parametrize("files", ["star", "path"])
def test_files_that_no_import_names_by_itself_are_in_the_key(tmp_path: Path, files: str) -> None:
    texts = {
        "star": (
            "from pk import *\n\n\ndef f() -> dict:\n    return {'v': part.V}\n",
            "__all__ = ['part']\n",
        ),
        "path": (
            "import importlib.util as u, os\n"
            "s = u.spec_from_file_location('p', os.path.dirname(__file__) + '/pk/part.py')\n"
            "part = u.module_from_spec(s)\ns.loader.exec_module(part)\n\n\n"
            "def f() -> dict:\n    return {'v': part.V}\n",
            "",
        ),
    }
    project = Project(tmp_path).workflow("stages: {f: {module: 'lab:f'}}")
    write(tmp_path / "lab.py", texts[files][0])
    write(tmp_path / "pk" / "__init__.py", texts[files][1])
    write(tmp_path / "pk" / "part.py", "V = 1\n")
    assert project.run().value("f", "v") == 1
    write(
        tmp_path / "pk" / "part.py",
        "V = 2  # of another size: Python's own loaders look at seconds and sizes\n",
    )
    assert project.run().value("f", "v") == 2


def test_a_copied_project_does_not_go_on_with_the_files_of_the_first(tmp_path: Path) -> None:
    write(tmp_path / "first" / "d.txt", "bad\n")
    write(tmp_path / "first" / "q.txt", "q1\n")
    run = Project(tmp_path / "first").workflow(FAILS).run(code=1)
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    write(tmp_path / "second" / "d.txt", "good\n")
    said = Project(tmp_path / "second").diel("resume", run.id, code=2)
    assert "was made in" in said
    assert "diel run" in said


NET = """
class Net:
    def __init__(self, w):
        self.w = w

    def __call__(self, x):
        return self.w * x * 1
"""
TRAIN = """
import pickle
from pathlib import Path
IMPORT


def train(n: int) -> dict:
    Path("m.pkl").write_bytes(pickle.dumps(Net(n)))
    return {"m": Path("m.pkl")}
"""
EVALUATE = """
import pickle, pkgutil
from pathlib import Path


def evaluate(m: Path) -> dict:
    return {"y": pickle.loads(m.read_bytes())(10)}


def look(name: str) -> dict:
    return {"y": pkgutil.resolve_name(name)(2)(10)}
"""


@pytest.mark.parametrize("isolation", ["worker", "process"])
def test_what_a_pickle_or_a_name_executes_is_looked_at_before_its_result_is_taken_again(
    tmp_path: Path, isolation: str
) -> None:
    project = Project(tmp_path).workflow(
        f"""
        axes: {{n: {{range: [1, 4]}}}}
        stages:
          train: {{module: "train:train", over: [n]}}
          evaluate: {{module: "evaluate:evaluate", over: [n], inputs: {{m: train.m}}, isolation: {isolation}}}
          look: {{module: "evaluate:look", params: {{name: "net:Net"}}, isolation: {isolation}}}
        """.replace("isolation: worker", "retries: 0")
    )
    project.module("net", NET).module("train", TRAIN.replace("IMPORT", "from net import Net"))
    project.module("evaluate", EVALUATE)
    assert project.run().values("evaluate", "y") == [10, 20, 30]
    again = project.run()
    assert again.counts("evaluate")["cached"] + again.counts("look")["cached"] == 4
    project.module("net", NET.replace("* 1", "* 100"))
    run = project.run()
    assert run.values("evaluate", "y") == [1000, 2000, 3000]
    assert run.value("look", "y") == 2000


def test_objects_of_a_class_in_the_file_of_a_function_are_read_by_others(tmp_path: Path) -> None:
    flow = """
        stages:
          train: {module: "train:train", params: {n: 2}}
          evaluate: {module: "evaluate:evaluate", inputs: {m: train.m}, isolation: process}
        """
    project = Project(tmp_path).workflow(flow).module("train", TRAIN.replace("IMPORT", NET))
    project.module("evaluate", EVALUATE)
    assert project.run().value("evaluate", "y") == 20


RESTORED = {
    "a file that comes and goes": "echo > {path}/extra; cat {path}/*; rm {path}/extra",
    "below": "echo > {path}/deep/extra; rm {path}/deep/extra",
    "another in its place": "mv {path} {path}.away; mkdir {path}; rmdir {path}; mv {path}.away {path}",
    "one below in its place": "mv {path}/deep {path}/x; mv {path}/x {path}/deep",
    "beside what Python caches": "mkdir {path}/__pycache__; echo > {path}/extra; rm {path}/extra",
    "renamed within": "mv {path}/deep/b {path}/deep/c; mv {path}/deep/c {path}/deep/b",
}


@pytest.mark.parametrize("edit", RESTORED)
def test_a_folder_that_is_another_while_a_task_runs_fails_it(tmp_path: Path, edit: str) -> None:
    project = with_files(tmp_path)
    commands = RESTORED[edit].format(path=tmp_path / "data")
    write(tmp_path / "edit.sh", f"test $1 != 1 || {{ {commands}; }}\n")
    run = project.run("--site", "one", code=1)
    assert {record["class"] for record in run.records("failed", "work")} == {"changed"}
    assert "was written while the task ran" in run.records("failed", "work")[0]["message"]
    assert run.counts("work")["done"] == 1


@pytest.mark.parametrize("edited", ["flow.yaml", "part.yaml"])
def test_a_workflow_that_was_edited_since_is_told_with_what_takes_it(tmp_path: Path, edited: str) -> None:
    project = Project(tmp_path).workflow("""
        include: {p: {file: part.yaml}}
        stages:
          a: {module: "lab:run"}
          b: {command: "test -e ../../../../../good", after: [a]}
        """)
    write(tmp_path / "part.yaml", "diel: 1\nname: part\nstages: {c: {command: 'echo 1'}}\n")
    write(tmp_path / "lab.py", "def run() -> dict:\n    return {'v': 1}\n")
    project.run(code=1)
    assert "changed since" not in project.diel("resume", code=1)
    write(tmp_path / edited, (tmp_path / edited).read_text().replace("echo 1", "echo 2") + "# more\n")
    line = f"{edited} changed since flow-1 began; the old text is used: `diel run flow.yaml` takes what is"
    assert line in project.diel("resume", code=1)
    write(tmp_path / "lab.py", "def run() -> dict:\n    return {'v': 2}\n")
    write(tmp_path / "good", "")
    assert line in project.diel("resume", "--update")
    assert line in project.diel("resume")


def test_a_file_of_params_that_was_edited_since_is_told_and_what_was_recorded_holds(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("""
        hyperparameters: {p: {type: int, default: 0}}
        stages:
          wait: {command: "test -e ../../../../../good"}
          a: {module: "lab:run", params: {p: "${{ hp.p }}"}, after: [wait]}
        """)
    write(tmp_path / "lab.py", "def run(p: int) -> dict:\n    return {'v': p}\n")
    write(tmp_path / "p.yaml", "p: 1\n")
    run = project.run("--params", "p.yaml", code=1)
    assert "changed since" not in project.diel("resume", code=1)
    write(tmp_path / "p.yaml", "p: 2\n")
    write(tmp_path / "good", "")
    told = "p.yaml changed since flow-1 began; the old text is used: `diel run flow.yaml --params "
    assert told in project.diel("resume")
    assert run.value("a", "v") == 1


def test_what_python_caches_beside_sources_changes_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(f"""
        axes: {{n: {{range: 2}}}}
        stages:
          a: {{over: [n], files: {{code: src}}, command: [{sys.executable}, "${{{{ files.code }}}}/main.py"]}}
          copy: {{files: {{code: src}}, outputs: {{lib: lib}}, command: "cp -r ${{{{ files.code }}}} lib"}}
          b: {{over: [n], inputs: {{lib: copy.lib}}, command: [{sys.executable}, "${{{{ inputs.lib }}}}/main.py"]}}
        """)
    write(tmp_path / "src/main.py", "import pkg.deep\n")
    write(tmp_path / "src/pkg/__init__.py", "")
    write(tmp_path / "src/pkg/deep.py", "")
    run = project.run()
    for stage, place in (("a", tmp_path / "src"), ("b", tmp_path / "runs/flow-1/tasks")):
        assert run.counts(stage) == {"done": 2}
        assert [*place.rglob("__pycache__")]
        assert project.run().counts(stage) == {"cached": 2}
        for folder in [*place.rglob("__pycache__")]:
            shutil.rmtree(folder)
        assert project.run().counts(stage) == {"cached": 2}
    write(tmp_path / "src/pkg/deep.pyc", "what Python reads without a source is a source")
    assert project.run().counts("a") == {"done": 2}


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ("echo 1 >> pkg/b.py", "was written while the task ran: its file 'pkg/b.py' was written since"),
        ("touch pkg/b.py", "was written while the task ran: its file 'pkg/b.py' was written since"),
        (
            "touch pkg/z.py",
            "is not what it was when the run first read it: its file 'pkg/z.py' was written since",
        ),
        ("rm pkg/b.py", "is not what it was when the run first read it: a file in it came or went"),
    ],
)
def test_the_file_of_a_directory_that_was_changed_is_named(tmp_path: Path, edit: str, told: str) -> None:
    project = Project(tmp_path).workflow(f"""
        stages: {{a: {{files: {{code: src}}, command: "cd ${{{{ files.code }}}}; {edit}"}}}}
        """)
    for name in ("main.py", "pkg/a.py", "pkg/b.py"):
        write(tmp_path / "src" / name, "")
    assert told.partition(": ")[2] in project.run(code=1).failure("a")["message"]
    said = project.diel("explain", "last", "a", code=None)
    assert "put it back, then `diel resume flow-1`" in said
    assert "tasks write into their own directories" in said


def test_rounds_that_nothing_decides_take_another_version(tmp_path: Path) -> None:
    made = Project(tmp_path).workflow(
        """
        axes: {round: {loop: {max: 2}}}
        stages:
          use: {over: [round], files: {n: n.txt}, command: 'cat ${{ files.n }}'}
          hold: {after: [use], command: 'test -e "$DIEL_RUN_DIR/go"'}
        """
    )
    (tmp_path / "n.txt").write_text("1\n")
    run = made.run(code=1)
    (tmp_path / "n.txt").write_text("2\n")
    (run.root / "go").touch()
    made.diel("resume", "--update")
    assert [run.stdout("use", index, 2) for index in range(2)] == ["2\n", "2\n"]
