"""What a task leaves running is ended before its result is committed, and no output is cut by that in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.throwaway import Project

HELD = "tail -f /dev/null"
COMMANDS = {
    "substitution": (
        "seq 9 | tee >(trap \"\" TERM; exec 3> out; exec " + HELD + ") > all; until [ -e out ]; do sleep 0.01; done",
        "`out` was still being written by tail",
    ),
    "job": ("{ exec 3> out; exec " + HELD + "; } & until [ -e out ]; do sleep 0.01; done", "`out` was still being"),
    "session": ("setsid bash -c 'exec 3> out; " + HELD + "' & until [ -e out ]; do sleep 0.01; done", "`out` was still"),
    "loop": ("echo 1 > out; while sleep 60; do echo 2 >> out; done & true", "a part of it still ran in the background"),
    "awaited": ("exec 3> >(sort -r > out); seq 9 >&3; exec 3>&-; wait $!", ""),
    "server": ("echo 1 > out; " + HELD + " > server.log & true", ""),
    "late": ("echo 1 > out; setsid bash -c 'echo $$ > ../../../pid; sleep 60; echo LATE >> out' & until [ -s ../../../pid ]; do sleep 0.01; done", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("kind", ["{out: out}", "{out: {glob: 'ou*'}}"])
def test_what_a_command_leaves_is_ended_and_cuts_no_output(tmp_path: Path, name: str, kind: str) -> None:
    command, message = COMMANDS[name]
    text = f"stages:\n  s:\n    command: |\n      {command}\n    outputs: {kind}\n    retries: 0\n"
    project = Project(tmp_path).workflow(
        text + "  t: {command: '! kill -0 $(cat ../../../pid 2> /dev/null || echo 99999999)', after: [s]}\n"
    )
    run = project.run(code=1 if message else 0)
    if message:
        (failed,) = run.records("fail", "s")
        assert failed["class"] == "app"
        assert message in failed["message"]
        assert "`wait`" in failed["message"]
    elif name != "awaited":
        assert (run.task_dir("s", 0) / "out").read_text() == "1\n"


FUNCTIONS = """
    import subprocess
    import time
    from pathlib import Path

    KEEP = []

    def begun(words: str, *, keep: bool) -> None:
        process = subprocess.Popen(words, shell=True)
        while not Path("begun").exists():
            time.sleep(0.01)
        if keep:
            KEEP.append(process)

    def writes(keep: bool) -> dict:
        begun("exec 3> out; touch begun; exec tail -f /dev/null", keep=keep)
        return {"out": Path("out").absolute()}

    def late(session: str) -> dict:
        Path("out").write_text("1")
        begun(f"{session} sh -c 'echo $$ > ../../../pid; touch begun; sleep 60; echo 2 >> out' &", keep=False)
        return {"out": Path("out").absolute()}

    def keeps(n: int) -> dict:
        if not KEEP:
            begun("touch begun; exec tail -f /dev/null", keep=True)
        return {"lives": KEEP[0].poll() is None}

    def pools(n: int) -> dict:
        if not KEEP:
            from concurrent.futures import ProcessPoolExecutor
            KEEP.append(ProcessPoolExecutor(1))
        return {"lives": KEEP[0].submit(abs, -n).result() == n}

    def end(out: Path) -> dict:
        lives = Path("/proc", Path("../../../pid").read_text().strip()).exists()
        return {"text": f"{out.read_text()} {lives}"}
"""


@pytest.mark.parametrize("isolation", ["null", "process"])
@pytest.mark.parametrize("keep", ["true", "false"])
def test_a_file_that_a_functions_child_still_writes_fails_it(
    tmp_path: Path, keep: str, isolation: str
) -> None:
    stage = f"{{module: 'ways:writes', params: {{keep: {keep}}}, isolation: {isolation}, retries: 0}}"
    run = Project(tmp_path).module("ways", FUNCTIONS).workflow(f"stages: {{s: {stage}}}").run(code=1)
    (failed,) = run.records("fail", "s")
    assert failed["class"] == "app"
    assert "`out` was still being written by tail" in failed["message"]


@pytest.mark.parametrize("isolation", ["null", "process"])
@pytest.mark.parametrize("session", ["", "setsid"])
def test_what_a_function_leaves_changes_nothing_later(tmp_path: Path, session: str, isolation: str) -> None:
    text = f"""
        stages:
          s: {{module: "ways:late", params: {{session: "{session}"}}, isolation: {isolation}}}
          t: {{module: "ways:end", inputs: {{out: s.out}}}}
    """
    assert Project(tmp_path).module("ways", FUNCTIONS).workflow(text).run().value("t", "text") == "1 False"


@pytest.mark.parametrize("name", ["keeps", "pools"])
def test_what_a_module_holds_lives_as_long_as_its_worker(tmp_path: Path, name: str) -> None:
    text = f"axes: {{n: {{range: 20}}}}\nstages: {{s: {{module: 'ways:{name}', over: [n]}}}}"
    run = Project(tmp_path).module("ways", FUNCTIONS).workflow(text).run()
    assert all(done["values"]["lives"] for done in run.records("done", "s"))
