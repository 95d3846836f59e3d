"""Environments, as a user meets them: programs run in them, and their definitions are in the cache key."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import diel
from diel.worker.attempt.environment import borrowed
from tests.surrounded import image, needs_box, needs_lmod, needs_uv, requirements, stand_in
from tests.throwaway import Project, wait_for


@pytest.fixture
def project(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("UV_CACHE_DIR", str(workspace / "uv"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    return Project(workspace)


def printed(project: Project, task: str) -> str:
    return project.diel("logs", "last", task)


# --- lines for bash -------------------------------------------------------------------------------

LINES = """
    axes: {x: {range: 3}}
    environments:
      set:
        setup: ['echo . >> counted', 'export WORD="a $0 b"', 'ulimit -S -n 200', umask 027]
        variables: {NUMBER: 007, WORD_TOO: "$(touch pwned)"}
      task: {setup: ['export PLACE=$DIEL_TASK_ID']}
    stages:
      a:
        over: [x]
        environment: set
        env: {OWN: mine}
        command: 'printf "%s\\n" "$WORD" "$NUMBER" "$WORD_TOO" "$OWN" "$(ulimit -n)" "$(umask)" "$PWD"'
      b: {over: [x], environment: task, command: 'echo "$PLACE"'}
      f: {over: [x], environment: set, module: "says:word"}
"""


def test_lines_run_once_in_a_worker_and_what_they_change_holds_for_each_of_its_tasks(
    project: Project,
) -> None:
    project.machine("one", 1).workflow(LINES)
    project.module(
        "says",
        """
        import os
        @diel.module(kind="analysis")
        def word(x: int) -> dict:
            return {"word": os.environ["WORD"], "number": os.environ["NUMBER"]}
    """,
    )
    run = project.run("--site", "one")
    said = (run.root / "tasks/a/2/stdout").read_text().splitlines()
    assert said[:6] == ["a diel b", "007", "$(touch pwned)", "mine", "200", "0027"]
    assert said[6] == str(run.root / "tasks/a/2")
    assert (project.folder / "counted").read_text().splitlines() == ["."]
    assert not list(project.folder.rglob("pwned"))
    assert [(run.root / f"tasks/b/{n}/stdout").read_text() for n in range(3)] == [
        f"b/{n}\n" for n in range(3)
    ]
    assert run.values("f", "word") == ["a diel b"] * 3


def test_a_line_that_fails_is_told_with_what_it_said_and_the_command_does_not_run(project: Project) -> None:
    project.workflow("""
        environments:
          broken: {setup: ["true", "echo no license >&2; (exit 3)", "touch after"]}
          gone: {setup: [exit 0]}
          unset: {setup: [set -u, 'export A=$NOT_SET']}
          spack: {setup: [set -u], spack: [gromacs]}
        stages:
          a: {environment: broken, command: [touch, "${{ run.dir }}/ran"]}
          b: {environment: gone, command: ["true"]}
          c: {environment: unset, command: ["true"]}
          d: {environment: spack, command: ["true"]}
    """)
    run = project.run(code=1)
    (failed,) = run.records("fail", "a")
    assert failed["class"] == "launch"
    assert failed["message"] == (
        "environment 'broken': `echo no license >&2; (exit 3)` failed (exit code 3): no license"
    )
    assert not list(project.folder.rglob("ran")) + list(project.folder.rglob("after"))
    assert run.records("fail", "b")[0]["message"] == "environment 'gone': `exit 0` ended the shell"
    assert "'unset': `export A=$NOT_SET` failed (exit code 1" in run.records("fail", "c")[0]["message"]
    assert "'spack': spack is not on this node: neither" in run.records("fail", "d")[0]["message"]


@needs_lmod
def test_modules_are_loaded_where_the_shell_has_no_module_command(project: Project) -> None:
    (project.folder / "found").mkdir()
    (project.folder / "found" / "gcc.lua").write_text('setenv("LOADED", "gcc")\n')
    project.workflow("""
        environments:
          gcc: {modules: [gcc]}
          missing: {modules: [nowhere/1]}
        stages:
          a: {environment: gcc, command: 'echo "$LOADED"'}
          b: {environment: missing, command: ["true"]}
    """)
    os.environ["MODULEPATH"] = str(project.folder / "found")
    try:
        run = project.run(code=1)
    finally:
        del os.environ["MODULEPATH"]
    assert "gcc" in printed(project, "a/0")
    assert "`module load nowhere/1` failed" in run.records("fail", "b")[0]["message"]


# --- Python packages ------------------------------------------------------------------------------

PYTHON = """
    axes: {x: {range: 2}}
    environments: {small: {python: requirements.txt}}
    stages:
      a: {over: [x], environment: small, command: tiny}
      f: {over: [x], environment: small, module: "asks:version"}
"""
ASKS = """
    @diel.module(kind="analysis")
    def version(x: int) -> dict:
        import sys
        import tiny
        sys.stderr.write("a word of the function")
        return {"version": tiny.VERSION, "prefix": sys.prefix, "has_click": can("click")}

    def can(name):
        import importlib.util
        return importlib.util.find_spec(name) is not None
"""


@needs_uv
def test_python_packages_are_installed_once_and_functions_are_called_by_their_interpreter(
    project: Project,
) -> None:
    requirements(project.folder, "tiny<2")
    project.workflow(PYTHON).module("asks", ASKS)
    said = project.diel("run", "flow.yaml")
    assert "environment 'small': installing 1 package for Python" in said
    run = project.newest()
    kept = project.folder / "runs" / ".environments"
    (link,) = (path for path in kept.iterdir() if path.is_symlink())
    assert (run.root / "tasks/a/1/stdout").read_text() == f"1.0 {link.resolve()}\n"
    assert run.values("f", "version") == ["1.0", "1.0"]
    assert {Path(prefix).resolve() for prefix in run.values("f", "prefix")} == {link.resolve()}
    assert run.values("f", "has_click") == [False, False], "what diel itself needs is not theirs"
    lock = (link / "lock.txt").read_text()
    assert lock.startswith("tiny==1.0 \\\n    --hash=sha256:")
    assert "--hash" not in (run.root / "environments.json").read_text()
    shutil.rmtree(project.folder / "wheels")  # nothing is asked for again
    assert "installing" not in project.diel("run", "flow.yaml")
    assert project.newest().counts("f") == {"cached": 2}


FUNCTION = """
    axes: {x: {range: 2}}
    environments: {small: {python: requirements.txt}}
    stages: {a: {over: [x], environment: small, module: "tiny:scaled", params: {x: "${{ x }}"}}}
"""


@needs_uv
def test_a_function_of_a_package_that_only_the_environment_has_is_a_module(project: Project) -> None:
    requirements(project.folder, "tiny<2")
    project.workflow(FUNCTION)
    assert "read only where their packages are: tiny:scaled" in project.diel("validate", "flow.yaml")
    assert project.run().values("a", "result") == [0.0, 1.0]
    run = project.workflow(FUNCTION.replace('{x: "', '{y: "')).run(code=1)
    assert "'tiny:scaled' has no parameter 'y'; it takes: x, by" in run.failure("a")["message"]


@needs_uv
def test_a_function_that_its_environment_lacks_too_is_refused(project: Project) -> None:
    requirements(project.folder, "tiny<2")
    said = project.workflow(FUNCTION.replace("tiny:", "tinny:")).diel("run", "flow.yaml", code=2)
    assert "flow.yaml:6:53: stages.a.module: environment 'small' has no package 'tinny'" in said
    assert not list((project.folder / "runs").glob("flow-*"))
    project.module("says", "def word(x: int) -> int: return x")
    for name, told in {"says:wrod": "did you mean 'word'?", "math:sqrtt": "did you mean 'sqrt'?"}.items():
        wrong = project.workflow(FUNCTION.replace("tiny:scaled", name))
        assert told in wrong.diel("validate", "flow.yaml", code=2)


@needs_uv
def test_another_version_is_another_key_and_explain_names_it(project: Project) -> None:
    requirements(project.folder, "tiny<2")
    project.workflow(PYTHON).module("asks", ASKS).run()
    requirements(project.folder, "tiny")
    run = project.run()
    assert run.values("f", "version") == ["2.0", "2.0"]
    assert "environment 'small': python: tiny 1.0 → 2.0" in project.diel("explain", "last", "f/0")


@needs_uv
def test_requirements_that_cannot_be_met_are_refused_before_there_is_a_run(project: Project) -> None:
    requirements(project.folder, "tiny>3")
    project.workflow(PYTHON).module("asks", ASKS)
    said = project.diel("run", "flow.yaml", code=2)
    assert "requirements.txt: uv says" in said
    assert "tiny>3" in said
    assert not list((project.folder / "runs").glob("flow-*"))


@needs_uv
def test_a_build_that_was_killed_is_never_used_and_its_rest_is_removed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirements(project.folder, "tiny<2")
    project.workflow(PYTHON).module("asks", ASKS)
    monkeypatch.setenv("REAL_UV", str(Path(sys.executable).parent / "uv"))
    slow = '[ "$2" != sync ] || { touch reached; sleep 60; }; exec "$REAL_UV" "$@"\n'
    stand_in(project.folder / "slow", "uv", slow)
    with monkeypatch.context() as with_slow:
        with_slow.setenv("PATH", f"{project.folder / 'slow'}:{os.environ['PATH']}")
        started = project.start("run", "flow.yaml")
    wait_for((project.folder / "reached").exists)
    started.send_signal(signal.SIGKILL)
    started.communicate()
    kept = project.folder / "runs" / ".environments"
    assert not [path for path in kept.iterdir() if path.is_symlink()]
    assert len(list(kept.glob("*.*-*"))) == 1
    assert project.run().values("f", "version") == ["1.0", "1.0"]
    assert len(list(kept.glob("*.*-*"))) == 1, "the rest of the killed one is gone"


@needs_uv
def test_resume_makes_again_what_was_removed(project: Project) -> None:
    requirements(project.folder, "tiny<2")
    project.workflow("""
        environments: {small: {python: requirements.txt}}
        stages: {a: {environment: small, command: "tiny; [ -e ../../../../../on ]"}}
    """).run(code=1)
    shutil.rmtree(project.folder / "runs" / ".environments")
    (project.folder / "on").touch()
    (project.folder / "requirements.txt").rename(project.folder / "gone.txt")
    assert "cannot read" in project.diel("resume", "last", code=2), "there is nothing to make it of"
    (project.folder / "gone.txt").rename(project.folder / "requirements.txt")
    project.diel("resume", "last")
    assert project.newest().counts("a") == {"done": 1}


@needs_uv
def test_resume_follows_requirements_that_changed_and_does_without_those_that_are_gone(
    project: Project,
) -> None:
    requirements(project.folder, "tiny<2")
    run = project.workflow("""
        environments: {small: {python: requirements.txt}}
        stages: {a: {environment: small, command: "tiny; [ -e ../../../../../on ]"}}
    """).run(code=1)
    (project.folder / "requirements.txt").rename(project.folder / "gone.txt")
    project.diel("resume", "last", code=1)
    requirements(project.folder, "tiny")
    (project.folder / "on").touch()
    assert "environment 'small': its definition is another" in project.diel("resume", "last", code=2)
    project.diel("resume", "last", "--update")
    versions = [(run.root / f"tasks/a/{n}/stdout").read_text()[:3] for n in ("0", "0.2", "0.3")]
    assert versions == ["1.0", "1.0", "2.0"]


# --- Conda ----------------------------------------------------------------------------------------


def prefix(folder: Path, version: str = "1.0") -> Path:
    """The directory of a Conda environment with a program `which_one`."""
    stand_in(folder / "bin", "which_one", f"echo {version}\n")
    shutil.rmtree(folder / "conda-meta", ignore_errors=True)
    (folder / "conda-meta").mkdir()
    (folder / "conda-meta" / f"lib-{version}-0.json").touch()
    return folder


def test_a_conda_environment_that_is_lost_is_told_and_one_that_changed_is_another(project: Project) -> None:
    place = prefix(project.folder / "mamba")
    text = """
        environments: {it: {conda: mamba}}
        stages:
          first: {environment: it, command: which_one}
          loses: {after: [first], command: "mv ${{ run.dir }}/../../mamba ${{ run.dir }}/../../away"}
          second: {environment: it, after: [loses], command: [which_one]}
    """
    run = project.workflow(text).run(code=1)
    (failed,) = run.records("fail", "second")
    assert failed["class"] == "launch"
    assert failed["message"].startswith(
        f"environment 'it': {place}/conda-meta is not on this node; `diel resume`"
    )
    said = project.diel("validate", "flow.yaml", code=2)
    assert "environments.it.conda: no such file or directory" in said
    assert "is no Conda environment" in project.diel("resume", "last", code=2)
    prefix(place, "2.0")
    assert "read by first, second" in project.diel("resume", "last", code=2)
    project.diel("resume", "last", "--update")
    assert (run.root / "tasks/first/0.2/stdout").read_text() == "2.0\n"
    assert (run.root / "tasks/second/0.2/stdout").read_text() == "2.0\n"
    shutil.rmtree(project.folder / "away")
    again = project.run(code=None)
    assert again.counts("first") == {"cached": 1}
    assert again.counts("second") == {"cached": 1}


# --- containers -----------------------------------------------------------------------------------


@needs_box
def test_a_command_runs_in_a_container_and_writes_only_where_it_should(project: Project) -> None:
    image(project.folder)
    (project.folder / "data.txt").write_text("some data\n")
    project.workflow("""
        environments: {box: {container: image, variables: {WORD: "a $HOME b"}}}
        stages:
          a:
            environment: box
            files: {data: data.txt}
            command: [sh, -c, 'cat "$1"; echo "$WORD"; pwd; id -u; ! touch /x 2>/dev/null; echo made >out', sh, "${{ files.data }}"]
            outputs: {out: out}
          b: {environment: box, env: {WORD: own}, command: [sh, -c, 'cat "$1"; echo $WORD', sh, "${{ a.out }}"]}
          ranks: {environment: box, command: [sh, -c, 'cat /bin/../usr/bin/x; ls /usr'], resources: {ranks: 2}}
    """)
    (project.folder / "image/usr/bin/x").write_text("inside\n")
    run = project.run()
    told = (run.root / "tasks/a/0/stdout").read_text().splitlines()
    assert told == ["some data", "a $HOME b", str(run.root / "tasks/a/0"), str(os.getuid())]
    assert (run.root / "tasks/b/0/stdout").read_text() == "made\nown\n"
    assert (run.root / "tasks/ranks/0/stdout").read_text().count("inside") == 2
    assert not (project.folder / "image" / "x").exists()
    (project.folder / "image/usr/bin/x").write_text("inside too\n")
    assert project.run().counts("ranks") == {"done": 1}, "the image is part of the key"
    assert "environment 'box': container: another image" in project.diel("explain", "last", "ranks/0")


@needs_box
def test_a_function_is_called_by_the_python_of_the_image_on_each_rank_of_one_world(project: Project) -> None:
    python = Path(sys.executable)
    places = {Path(str(place)).parts[1] for place in (python, sys.base_prefix, diel.__file__, *borrowed())}
    mounts = ["/lib", "/lib64", "/usr/lib", *(f"/{place}" for place in places)]
    made = image(project.folder, *(mount[1:] for mount in mounts))
    text = """
        environments: {box: {container: {image: image, mounts: MOUNTS}}}
        stages:
          a: {environment: box, module: "says:told", resources: {ranks: 2}}
          b: {environment: box, module: "says:told", params: {word: b}}
    """
    project.workflow(text.replace("MOUNTS", str(mounts)))
    project.module(
        "says",
        """
        import os
        def told(comm: "mpi4py.MPI.Comm" = None, word: str = "") -> dict:
            return {"box": not os.path.exists("/etc/debian_version"), "ranks": comm and comm.allreduce(1)}
    """,
    )
    run = project.run(code=1)
    for stage in "ab":
        assert run.failure(stage)["class"] == "launch"
        assert "python3 does not start in its container" in run.failure(stage)["message"]
    stand_in(made / "bin", "python3", f'exec {python} "$@"\n')
    run = project.run()
    assert (run.value("a", "ranks"), run.value("b", "ranks")) == (2, None)
    assert [run.value(stage, "box") for stage in "ab"] == [True, True]


@needs_box
def test_an_image_or_a_runtime_that_is_not_there_is_told_before_anything_runs(project: Project) -> None:
    project.workflow("""
        environments: {box: {container: tools.sif}}
        stages: {a: {environment: box, command: ["true"]}}
    """)
    said = project.diel("run", "flow.yaml", code=2)
    assert f"environment 'box': no image {project.folder}/tools.sif: No such file or directory" in said
    (project.folder / "tools.sif").write_text("an image")
    said = project.diel("run", "flow.yaml", code=2)
    assert "no runtime for the container: looked for apptainer, singularity on PATH" in said
    assert not list((project.folder / "runs").glob("flow-*"))


# --- whose definition -----------------------------------------------------------------------------


def test_a_site_knows_its_machine_and_beats_the_workflow(project: Project) -> None:
    project.machine("base", 1, "environments: {it: {variables: {WHO: base, TOO: base}}}")
    (project.folder / "schedulers/mine.yaml").write_text(
        "extends: base\nenvironments: {it: {variables: {WHO: mine}}, other: {setup: [export X=1]}}\n"
    )
    project.workflow("""
        environments: {it: {variables: {WHO: workflow}}}
        stages: {a: {environment: it, command: 'echo "$WHO $TOO"'}}
    """)
    for site, said in {"base": "base base", "mine": "mine base"}.items():
        run = project.run("--site", site)
        assert (run.root / "tasks/a/0/stdout").read_text().strip() == said
        assert run.counts("a") == {"done": 1}
    text = project.diel("explain", "last", "a/0")
    assert "environment 'it': variables.WHO: base → mine" in text
    assert "defined by site 'mine'" in text


def test_an_environment_that_the_site_lacks_is_refused_with_where_to_define_it(project: Project) -> None:
    project.workflow("""
        environments: {dft: {variables: {A: 1}}}
        stages: {a: {environment: dtf, command: ["true"]}, b: {environment: chemistry, command: ["true"]}}
    """)
    said = project.diel("run", "flow.yaml", code=2)
    assert "stages.a.environment: no environment 'dtf' here or on site 'local'" in said
    assert "did you mean 'dft'?" in said
    assert "define it under `environments` of this file, or of the file of site 'local'" in said


def test_the_key_of_a_stage_without_an_environment_is_as_before(project: Project) -> None:
    project.workflow('stages: {a: {command: [echo, "1"]}}').run()
    project.workflow("""
        environments: {it: {variables: {WHO: workflow}}}
        stages: {a: {command: [echo, "1"]}, b: {environment: it, command: ["true"]}}
    """)
    run = project.run()
    assert run.counts("a") == {"cached": 1}


def test_an_expression_chooses_the_environment_of_each_task(project: Project) -> None:
    text = """
        axes: {code: {values: [one, two]}}
        environments: {one: {variables: {WHO: first}}, two: {variables: {WHO: second}}}
        stages: {a: {over: [code], environment: "${{ code }}", command: 'echo "$WHO"'}}
    """
    run = project.workflow(text).run()
    assert [(run.root / f"tasks/a/{n}/stdout").read_text() for n in (0, 1)] == ["first\n", "second\n"]
    run = project.workflow(text.replace("second", "third")).run()
    assert run.counts("a") == {"cached": 1, "done": 1}
    assert (run.root / "tasks/a/1/stdout").read_text() == "third\n"
    assert "why: its environment: two" in project.diel("explain", "last", "a/1")


def test_an_axis_may_be_named_as_what_it_chooses(project: Project) -> None:
    text = """
        axes: {environment: {values: [one, two]}}
        environments: {one: {variables: {WHO: first}}, two: {variables: {WHO: second}}}
        stages:
          a: {over: [environment], environment: "${{ environment }}", command: 'echo "$WHO ${{ environment }}"'}
          b: {over: [environment], environment: "${{ environment and 'one' }}", module: "says:it"}
    """
    project.module("says", "def it(environment: str) -> str: return environment")
    assert project.workflow(text).run().values("b", "result") == ["one", "two"]
    run = project.workflow(text.replace("second", "third")).run()
    assert (run.root / "tasks/a/1/stdout").read_text() == "third two\n"
    assert run.values("b", "result") == ["one", "two"]


def test_threads_are_those_of_the_environment_and_a_stage_beats_them(project: Project) -> None:
    project.workflow("""
        environments:
          none: {setup: ['export MINE=$OMP_NUM_THREADS']}
          line: {setup: [export OMP_NUM_THREADS=1]}
          named: {variables: {OMP_NUM_THREADS: 7}}
        axes: {where: {values: [none, line, named]}}
        stages:
          a:
            over: [where]
            environment: "${{ where }}"
            resources: {cores_per_rank: 2}
            command: 'echo $OMP_NUM_THREADS $MINE'
          own: {environment: named, env: {OMP_NUM_THREADS: 5}, command: 'echo $OMP_NUM_THREADS'}
    """)
    project.machine("two", 2)
    run = project.run("--site", "two")
    assert [(run.root / f"tasks/a/{n}/stdout").read_text().strip() for n in range(3)] == ["2 2", "1", "7"]
    assert (run.root / "tasks/own/0/stdout").read_text() == "5\n"


def test_a_task_whose_expression_names_no_environment_fails_alone(project: Project) -> None:
    project.workflow("""
        environments: {one: {variables: {WHO: first}}}
        axes: {place: {from: make.places}}
        stages:
          make:
            command: |
              echo '{"places": [{"name": "one"}, {"name": "won"}]}' >$DIEL_RESULT
            outputs: {places: {value: list}}
          a: {over: [place], environment: "${{ name }}", command: 'echo "$WHO"'}
    """)
    run = project.run(code=1)
    assert run.counts("a") == {"done": 1, "failed": 1}
    failed = run.failure("a", 1)
    assert failed["class"] == "launch"
    assert "no environment 'won'" in failed["message"]


def test_imports_of_a_stage_whose_environment_is_chosen_are_not_looked_for_here(project: Project) -> None:
    (project.folder / "lib").mkdir()
    (project.folder / "lib" / "far_away.py").write_text("WORD = 'found'\n")
    project.module(
        "says",
        """
        import far_away
        def word(where: str) -> str:
            return far_away.WORD
    """,
    )
    project.workflow("""
        environments: {it: {setup: ["export PYTHONPATH=$PWD/lib"]}}
        axes: {where: {values: [it]}}
        stages: {a: {over: [where], environment: "${{ where }}", module: "says:word"}}
    """)
    assert project.run().values("a", "result") == ["found"]


def test_what_a_pth_file_of_an_environment_finds_is_of_one_version_and_counts(project: Project) -> None:
    place, lib = project.folder / "venv", project.folder / "lib"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (packages,) = place.glob("lib/python3*/site-packages")
    (packages / "own.pth").write_text(f"{lib}\n")
    lib.mkdir()
    (lib / "far_away.py").write_text("VALUE = 1\n")
    project.module("says", "import far_away\ndef value(n: int) -> int:\n    return far_away.VALUE\n")
    project.workflow(f"""
        environments: {{it: {{setup: ['export PATH="$PWD/venv/bin:$PATH"']}}}}
        stages:
          first: {{environment: it, module: "says:value", params: {{n: 1}}}}
          edit: {{after: [first], command: 'cp {project.folder}/new {lib}/far_away.py'}}
          then: {{environment: it, module: "says:value", params: {{n: 2}}, after: [edit]}}
    """)
    (project.folder / "new").write_text("VALUE = 22\n")
    run = project.run()
    assert run.value("first", "result") == run.value("then", "result") == 1
    run = project.run()
    assert run.value("first", "result") == run.value("then", "result") == 22
    assert project.run().counts("first") == {"cached": 1}


@needs_box
def test_services_run_in_an_environment_and_a_launcher_starts_ranks_in_its_container(
    project: Project,
) -> None:
    image(project.folder)
    project.module(
        "serve",
        """
        import os
        from http.server import BaseHTTPRequestHandler, HTTPServer
        @diel.module(kind="inference")
        def word():
            class Answer(BaseHTTPRequestHandler):
                def do_GET(self):
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(os.environ["WORD"].encode())
            HTTPServer(("127.0.0.1", int(os.environ["DIEL_SERVICE_PORT"])), Answer).serve_forever()
    """,
    )
    project.workflow("""
        environments:
          set: {setup: [export WORD=served]}
          box: {container: image}
        stages:
          answers: {environment: set, module: "serve:word", service: {ready: {http: /}}}
          ask:
            services: [answers]
            command: [python3, -c, "import os, urllib.request as u; print(u.urlopen(os.environ['DIEL_SERVICE_ANSWERS_URL']).read())"]
          ranks:
            environment: box
            resources: {ranks: 2}
            command: |
              [ -x /bin/bash ] && echo outside
              ${{ launcher }} sh -c '[ -x /bin/bash ] || echo inside $PMI_RANK'
    """)
    run = project.run()
    assert (run.root / "tasks/ask/0/stdout").read_text() == "b'served'\n"
    said = (run.root / "tasks/ranks/0/stdout").read_text().split("\n")
    assert sorted(said) == ["", "inside 0", "inside 1", "outside"]


@needs_uv
def test_doctor_tries_environments_and_clean_removes_those_that_no_run_names(project: Project) -> None:
    requirements(project.folder, "tiny<2")
    project.workflow("""
        environments:
          good: {python: requirements.txt}
          bad: {setup: [echo no license >&2; false]}
        stages: {a: {environment: good, command: tiny}}
    """)
    said = project.diel("doctor", "flow.yaml", code=None)
    assert "environment good Python 3" in said
    assert "environment bad `echo no license >&2; false` failed (exit code 1): no license" in said
    run = project.run()
    assert "environment good: Python" in project.diel("status", "last")
    assert "no environment to remove" in project.diel("clean", "--environments")
    project.diel("clean", run.id, "--yes")
    assert "removed 1 environment" in project.diel("clean", "--environments", "--yes")
    assert [path.name for path in (project.folder / "runs/.environments").iterdir()] == ["locks"]
