"""Results where people look: what is exported, when, over what, and what happens when that cannot be."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from diel.controller.export import THREADS
from diel.store.artifacts import digest_of
from tests.throwaway import Project, wait_for

FLOW = """
axes: {m: {values: [si, ge]}}
stages:
  fit:
    over: [m]
    command: 'echo ${{ m }} > eos.csv; mkdir -p d/s; echo a > d/a; echo b > d/s/b; mkdir f e; touch f/1.xyz f/2.xyz'
    outputs:
      eos: {path: eos.csv, export: "results/eos-${{ m }}.csv"}
      tree: {path: d, export: "results/${{ m }}"}
      frames: {glob: "f/*.xyz", export: "results/${{ m }}/frames"}
      empty: {path: e, export: "../elsewhere/${{ m }}/none"}
      inner: {path: d/a, export: "../elsewhere/${{ m }}/"}
"""
PLACES = ["a", "frames/1.xyz", "frames/2.xyz", "s/b"]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "here").workflow(FLOW)


def below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_files_directories_and_patterns_are_put_beside_the_workflow(project: Project) -> None:
    elsewhere = project.folder / "elsewhere"
    elsewhere.mkdir()
    project.end(project.start("run", "flow.yaml"))
    results = project.folder / "results"
    assert below(results) == sorted(
        [*(f"{m}/{place}" for m in ("si", "ge") for place in PLACES), "eos-ge.csv", "eos-si.csv"]
    )
    assert (results / "eos-si.csv").read_text() == "si\n"
    assert (project.folder.parent / "elsewhere" / "si" / "none").is_dir()
    assert (project.folder.parent / "elsewhere" / "si" / "a").read_text() == "a\n"
    assert "exported: 2 files of fit.eos to results" in project.diel("status")


def test_an_export_that_is_edited_leaves_the_result_as_it_is(project: Project) -> None:
    run = project.run()
    (project.folder / "results" / "eos-si.csv").write_text("edited\n")
    assert run.artifact("fit", "eos").read_text() == "si\n"
    assert "2 cached" in project.diel("run", "flow.yaml")
    assert (project.folder / "results" / "eos-si.csv").read_text() == "edited\n"


def test_what_came_from_the_cache_is_exported_and_the_path_is_not_in_the_key(project: Project) -> None:
    project.run()
    project.workflow(FLOW.replace("results/eos", "plots/eos"))
    assert "2 cached" in project.diel("run", "flow.yaml")
    assert below(project.folder / "plots") == ["eos-ge.csv", "eos-si.csv"]


def test_resume_puts_back_what_was_removed(project: Project) -> None:
    project.run()
    (project.folder / "results" / "eos-si.csv").unlink()
    assert "flow-1 has succeeded: 1 export put in place again" in project.diel("resume")
    assert (project.folder / "results" / "eos-si.csv").read_text() == "si\n"
    assert "there is nothing to do" in project.diel("resume")


def test_a_controller_killed_before_it_exported_loses_nothing(project: Project) -> None:
    whole = [str(project.folder / place) for place in ("runs/flow-1", "results/eos-si.csv")]
    part = project.folder / "results" / f".{digest_of(whole)[:16]}.part"
    part.parent.mkdir()
    os.mkfifo(part)  # the copy waits here for a reader
    process = project.start("run", "flow.yaml")
    wait_for(lambda: (project.folder / "results" / "eos-ge.csv").exists())
    assert not (project.folder / "results" / "eos-si.csv").exists()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    part.unlink()
    said = project.diel("resume")
    assert "flow-1 succeeded" in said
    assert (project.folder / "results" / "eos-si.csv").read_text() == "si\n"
    assert len(project.newest().records("done", "fit")) == 2
    assert not part.exists()


def test_paths_that_begin_alike_are_each_written_whole(tmp_path: Path) -> None:
    name = "strong-scaling-of-a-model-with-a-long-name-on-this-machine"
    project = Project(tmp_path).workflow(f"""
        axes: {{i: {{range: 8}}}}
        stages:
          make:
            over: [i]
            command: 'head -c 3000000 /dev/zero | tr "\\0" ${{{{ i }}}} > o'
            outputs: {{o: {{path: o, export: "{name}-${{{{ i }}}}.dat"}}}}
        """)
    project.run()
    for i in range(8):
        assert set((tmp_path / f"{name}-{i}.dat").read_text()) == {str(i)}


def test_a_file_of_the_same_size_and_time_is_still_written_over(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("""
        axes: {text: {values: [AAA]}}
        stages:
          a:
            over: [text]
            command: printf ${{ text }} > o; touch -d 2020-01-01 o
            outputs: {o: {path: o, export: out.txt}}
        """)
    project.run()
    (tmp_path / "flow.yaml").write_text((tmp_path / "flow.yaml").read_text().replace("AAA", "BBB"))
    project.run()
    assert (tmp_path / "out.txt").read_text() == "BBB"


@pytest.mark.parametrize("stop", ["--fail-fast", "cancel"])
def test_what_a_run_that_is_stopped_had_committed_is_exported(tmp_path: Path, stop: str) -> None:
    run, out = tmp_path / "runs" / "flow-1", tmp_path / "out"
    out.mkdir()
    blocked = [out / f".{digest_of([str(run), f'{out}/{number}'])[:16]}.part" for number in range(THREADS)]
    for part in blocked:
        os.mkfifo(part)  # each copy waits for a reader, and the last one for them
    project = Project(tmp_path).workflow(f"""
        stages:
          a:
            command: touch {" ".join(map(str, range(THREADS + 1)))}
            outputs: {{{", ".join(f"o{n}: {{path: '{n}', export: 'out/{n}'}}" for n in range(THREADS + 1))}}}
          b: {{command: 'touch begun; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; false', after: [a]}}
          c: {{command: ["true"], after: [b]}}
        """)
    process = project.start("run", "flow.yaml", *([stop] if stop != "cancel" else []))
    wait_for(lambda: (run / "tasks" / "b" / "0" / "begun").exists())
    if stop == "cancel":
        asked = project.start("cancel", "flow-1")
        wait_for(lambda: project.newest().records("fail", "b"))
    else:
        (tmp_path / "go").touch()
        wait_for(lambda: project.newest().records("held"))
    readers = [os.open(part, os.O_RDONLY | os.O_NONBLOCK) for part in blocked]
    project.end(process, code=None)
    if stop == "cancel":
        project.end(asked)
    assert [path.name for path in out.glob("?")] == [str(THREADS)]
    for part, reader in zip(blocked, readers, strict=True):
        os.close(reader)
        part.unlink()
    (tmp_path / "go").touch()
    project.diel("resume", code=1)
    assert len(list(out.glob("?"))) == THREADS + 1


def test_what_cannot_be_written_loses_no_result_and_is_tried_again(project: Project) -> None:
    blocked = project.folder / "results"
    blocked.write_text("a file")
    run = project.run(code=1)
    assert run.counts("fit") == {"done": 2}
    told = "eos-ge.csv cannot be written: not a directory; the result is "
    assert told in project.diel("status")
    assert "`diel resume flow-1` tries again" in project.diel("status")
    assert told in project.diel("explain")
    blocked.unlink()
    assert "flow-1 succeeded" in project.diel("resume")
    assert len(below(blocked)) == 10


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("points.csv", "is not written: it is the file of axis 'm'"),
        ("data/x.csv", "is not written: it is files.data of 'fit'"),
        ("runs/x.csv", "where the runs are"),
        ("made", "made is a directory; write made/ to put the file into it"),
    ],
)
def test_the_workflows_own_files_stay_as_they_are(project: Project, target: str, told: str) -> None:
    for folder in ("data", "made"):
        (project.folder / folder).mkdir()
    (project.folder / "points.csv").write_text(f"m\n{target}\n")
    project.workflow("""
        axes: {m: {file: points.csv}}
        stages:
          fit:
            over: [m]
            files: {data: data}
            command: 'echo x > x.csv; echo ${{ task.id }}'
            outputs: {x: {path: x.csv, export: "${{ where.path }}"}}
            inputs: {}
          where: {over: [m], command: 'echo path=${{ m }}', outputs: {path: {value: str, match: 'path=(.*)'}}}
        """)
    project.run(code=1)
    assert told in project.diel("status")
    assert (project.folder / "points.csv").read_text() == f"m\n{target}\n"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("helper.py", "a source of module 'lab:f'"),
        ("lab.py", "module 'lab:f'"),
        ("below/part.yaml", "a workflow that this one reads"),
        ("below/text.in", "files.t of 'p.s'"),
        ("below/points.csv", "the file of axis 'p.m'"),
        ("below/part_helper.py", "a source of module 'part_lab:f'"),
        ("values.yaml", "a file of hyperparameters"),
    ],
)
def test_no_export_writes_over_what_a_workflow_reads(tmp_path: Path, path: str, told: str) -> None:
    project = Project(tmp_path).workflow(f"""
        include: {{p: {{file: below/part.yaml}}}}
        hyperparameters: {{n: {{type: int, default: 1}}}}
        stages:
          s: {{module: "lab:f"}}
          e: {{command: "echo ${{{{ hp.n }}}} > o", outputs: {{o: {{path: o, export: {path}}}}}}}
        """)
    (tmp_path / "below").mkdir()
    for name in ("", "below/part_"):
        (tmp_path / f"{name}helper.py").write_text("N = 1\n")
        helper = f"{name.rpartition('/')[2]}helper"
        (tmp_path / f"{name}lab.py").write_text(
            f"import {helper}\ndef f() -> dict:\n    return {{'v': {helper}.N}}\n"
        )
    (tmp_path / "values.yaml").write_text("n: 2\n")
    (tmp_path / "below" / "text.in").write_text("x\n")
    (tmp_path / "below" / "points.csv").write_text("m\n1\n")
    (tmp_path / "below" / "part.yaml").write_text(
        "diel: 1\nname: part\naxes: {m: {file: points.csv}}\nstages:\n"
        "  s: {over: [m], command: 'cat text.in', files: {t: {template: text.in}}}\n"
        "  f: {module: 'part_lab:f'}\n"
    )
    said = project.diel("validate", "flow.yaml", "--params", "values.yaml", code=2)
    assert f"'{path}' is {told}" in said


def test_a_module_exports_its_files_and_two_tasks_of_one_path_are_told(tmp_path: Path) -> None:
    project = Project(tmp_path).module(
        "m",
        "from pathlib import Path\n@diel.module(kind='analysis')\ndef write(i: int) -> dict:\n"
        "    Path('o.csv').write_text(str(i))\n    return {'o': Path('o.csv'), 'name': 'same'}\n",
    )
    flow = """
        axes: {i: {range: 2}}
        stages:
          write: {module: "m:write", over: [i], outputs: {o: {export: "out/${{ i }}.csv"}}}
        """
    project.workflow(flow).run()
    assert [(tmp_path / "out" / f"{i}.csv").read_text() for i in (0, 1)] == ["0", "1"]
    project.workflow(flow.replace("${{ i }}", "${{ task.index // 2 }}")).run(code=1)
    assert "is written by 'o' of write/0 and 'o' of write/1" in project.diel("status")


def test_a_file_of_a_directory_that_another_output_is_put_into_is_told(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("""
        stages:
          tree: {command: mkdir d; echo a > d/a; echo b > d/b, outputs: {d: {path: d, export: out}}}
          one: {command: echo one | tee p > o, outputs: {o: {path: o, export: out/a}, p: {path: p, export: out/c}}}
        """)
    project.run(code=1)
    assert f"not exported: {tmp_path}/out/a is written by 'd' of tree/0 and 'o' of one/0" in project.diel(
        "status"
    )
    assert below(tmp_path / "out") == ["a", "b", "c"]


def test_links_to_one_directory_are_one_place(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("""
        axes: {m: {values: [a, b]}}
        stages:
          s:
            over: [m]
            command: 'echo ${{ m }} > x.txt; mkdir d; echo ${{ m }} > d/x'
            outputs: {x: {path: x.txt, export: "l${{ m }}/x.txt"}, d: {path: d, export: "t${{ m }}"}}
        """)
    (tmp_path / "real").mkdir()
    for m in "ab":
        (tmp_path / f"l{m}").symlink_to("real")
        (tmp_path / f"t{m}").mkdir()
    said = project.diel("validate", "flow.yaml", code=2)
    assert (
        "'lb/x.txt' is written by several tasks: the values m=b and m=a give the same path"
        in said.replace("\n    ", ": ")
    )
    (tmp_path / "lb").unlink()
    (tmp_path / "lb").mkdir()
    (tmp_path / "tb").rmdir()
    (tmp_path / "tb").symlink_to("ta")
    assert "'tb' is written by several tasks" in project.diel("validate", "flow.yaml", code=2)


def test_links_that_are_made_meanwhile_are_one_place_too(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("""
        stages:
          link: {command: 'cd ../../../../..; mkdir real; ln -s real la; ln -s real lb'}
          a: {after: [link], command: 'echo a > x', outputs: {x: {path: x, export: la/x}}}
          b: {after: [a], command: 'echo b > x', outputs: {x: {path: x, export: lb/x}}}
        """)
    said = project.diel("run", "flow.yaml", code=1)
    assert "real/x is written by 'x' of a/0 and 'x' of b/0" in said
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["x"]


@pytest.mark.parametrize("words", [("run", "flow.yaml"), ("resume", "--update")])
def test_what_is_not_delivered_is_said_without_progress_too(tmp_path: Path, words: tuple[str, ...]) -> None:
    project = Project(tmp_path).workflow("""
        stages:
          s: {command: 'cat ${{ files.n }} > x', files: {n: n}, outputs: {x: {path: x, export: x.txt}}}
          t: {command: 'test -e ../../../../../good', after: [s]}
        """)
    (tmp_path / "n").write_text("1\n")
    assert "another file" not in project.diel("run", "flow.yaml", "-q", code=1)
    (tmp_path / "x.txt").write_text("edited\n")
    (tmp_path / "n").write_text("2\n")
    (tmp_path / "good").touch()
    process = project.start(*words, "-q")
    out, err = process.communicate()
    assert (process.returncode, "x.txt" in out) == (0, False)
    assert "1 export of s.x met another file: " in err
    assert "edited\n" in [path.read_text() for path in tmp_path.glob("x.txt*")]
