"""What `diel run` and `diel resume` show, on a terminal and elsewhere, and how signals end them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.screen import Terminal
from tests.throwaway import Project

MIXED = """
    axes:
      i: {range: 4}
    stages:
      make:
        over: [i]
        command: |
          echo about to fail >&2
          printf '{"square": %d}' ${{ i * i }} > "$DIEL_RESULT"
          test ${{ i }} -ne 2
        outputs: {square: {value: int}}
      use: {over: [i], inputs: {x: make.square}, command: "true"}
      total:
        inputs: {x: {from: make.square, min_success: 0.5}}
        command: printf '{"sum":%d}' ${{ sum(inputs.x) }} > "$DIEL_RESULT"
        outputs: {sum: {value: int}}
"""
ENDLESS = """
    axes:
      i: {range: 8}
    stages:
      wait: {over: [i], command: "touch '${{ run.dir }}/begun'; sleep 600"}
"""


def test_without_a_terminal_a_few_plain_lines_tell_the_story(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(MIXED)
    said = project.diel("run", "flow.yaml", code=1)
    lines = said.splitlines()
    assert lines[0] == "flow-1: 9 tasks in 3 stages, on site local"
    assert "\033" not in said
    assert "make/2 (i=2)  app: exit code 1" in lines
    assert "    about to fail" in lines
    assert "    diel logs flow-1 make/2" in lines
    for told in ("make: 3 of 4 done, 1 failed", "use: 3 of 4 done, 1 skipped", "total: 1 of 1 done"):
        assert any(line.endswith(told) for line in lines), told
    assert re.search(r"flow-1 failed after .*: 7 tasks done, 1 failed, 1 skipped", said)
    assert re.search(r"total\n  sum +10\n", said)  # 0 + 1 + 9
    assert "diel explain flow-1 make/2" in said
    assert "diel resume flow-1" in said


def test_quiet_leaves_failures_and_the_end(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(MIXED)
    lines = project.diel("run", "flow.yaml", "-q", code=1).splitlines()
    assert lines[0] == "make/2 (i=2)  app: exit code 1"
    assert lines[-1].startswith("flow-1 failed after")
    assert not any("3 of 4" in line for line in lines)


def test_what_was_cached_is_told_apart(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("stages:\n  a: {command: 'true'}")
    project.run()
    assert "1 task done (1 cached)" in project.diel("run", "flow.yaml")


def test_the_commands_that_are_named_work_as_they_stand(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(MIXED)
    said = project.diel("run", "flow.yaml", "--runs", "else where", code=1)
    (logs,) = re.findall(r"^  diel (logs .*?)  ", said, re.MULTILINE)
    assert (
        "about to fail"
        in subprocess.run(
            f"{sys.executable} -m diel {logs}",
            shell=True,
            cwd=tmp_path,
            env=project.environment(),
            capture_output=True,
            text=True,
            check=True,
        ).stderr
    )


def test_a_reader_that_goes_away_does_not_end_the_run(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(MIXED)
    with project.start("run", "flow.yaml") as process:
        assert process.stdout is not None
        process.stdout.close()
    assert process.returncode == 1
    assert project.newest().history().state == "failed"


def test_on_a_terminal_each_stage_has_a_bar_and_failures_stand_above(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(MIXED)
    terminal = Terminal(project, "run", "flow.yaml")
    assert terminal.end() == 1
    assert "\033[" in terminal.raw
    assert re.search(r"make +━+ +3/4 +1 failed", terminal.text)
    assert re.search(r"use +━+ +3/4 +1 skipped", terminal.text)
    assert terminal.text.index("make/2 (i=2)  app: exit code 1") < terminal.text.rindex("3/4")
    assert "flow-1 failed after" in terminal.text


def test_no_color_is_honoured_on_a_terminal(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(MIXED)
    terminal = Terminal(project, "run", "flow.yaml", NO_COLOR="1")
    assert terminal.end() == 1
    assert re.findall(r"\x1b\[[0-9;]*3[0-9][0-9;]*m", terminal.raw) == []


def test_control_c_on_a_terminal_ends_it_and_says_what_goes_on(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(ENDLESS)
    terminal = Terminal(project, "run", "flow.yaml")
    terminal.read((tmp_path / "runs/flow-1/begun").exists)
    terminal.press(b"\x03")
    assert terminal.end() == 130
    assert "once more to leave at once" in terminal.text
    assert "diel resume flow-1" in terminal.text
    assert terminal.raw.count("\033[?25h") == terminal.raw.count("\033[?25l")  # the cursor is back
    assert project.newest().processes() == []


def test_a_terminal_that_hangs_up_leaves_the_run_interrupted(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow(ENDLESS)
    terminal = Terminal(project, "run", "flow.yaml")
    terminal.read((tmp_path / "runs/flow-1/begun").exists)
    terminal.close()
    assert terminal.process.wait(60) == 130
    assert project.newest().history().state == "interrupted"


def test_rich_is_not_loaded_without_a_terminal(tmp_path: Path) -> None:
    project = Project(tmp_path).workflow("stages:\n  a: {command: 'true'}")
    code = (
        "import sys\nfrom diel.cli import main\n"
        "try:\n    main(['run', 'flow.yaml'])\nexcept SystemExit:\n    print('rich' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**project.environment(), "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "False"
