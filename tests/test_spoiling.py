"""What tasks made stays as it was made, or whoever reads it next hears of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.throwaway import Project

MAKE = """
    stages:
      make:
        command: 'echo one > out.txt; mkdir d; for i in 1 2 3; do echo $i > d/$i; done'
        outputs: {out: out.txt, d: d}
      first: {command: 'cat ${{ make.out }} > r.txt', outputs: {r: r.txt}}
      reads:
        after: [first]
        inputs: {x: make.out, d: make.d}
        command: 'EDIT; touch r.txt'
        outputs: {r: r.txt}
"""


def project(folder: Path, edit: str = "true") -> Project:
    return Project(folder).workflow(MAKE.replace("EDIT", edit))


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ("sed -i s/one/two/ ${{ inputs.x }}", "'x'"),
        ("rm ${{ inputs.x }}", "it is gone"),
        (
            "touch -r ${{ inputs.x }} t; printf two > ${{ inputs.x }}; touch -r t ${{ inputs.x }}",
            "it has 3 bytes",
        ),
        ("ln ${{ inputs.x }} mine; echo two > mine", "other content in its 4 bytes"),
        ("echo 4 > ${{ inputs.d }}/4", "its file '4' is new"),
        ("rm ${{ inputs.d }}/2", "its file '2' is gone"),
        ("echo two > ${{ make.out }}", "'x'"),
    ],
)
def test_whoever_spoils_an_input_fails_by_name(tmp_path: Path, edit: str, expected: str) -> None:
    made = project(tmp_path, edit)
    run = made.run(code=1)
    failure = run.failure("reads")
    assert failure["class"] == "changed"
    assert expected in failure["message"]
    assert "changed while it ran" in failure["message"]
    assert run.attempts("reads") == [1]
    assert run.counts("first") == {"done": 1}  # it had read what was made
    assert "make/0." in made.diel("verify", code=1)


def test_a_function_that_writes_to_its_input_fails_by_name(tmp_path: Path) -> None:
    made = Project(tmp_path).workflow("""
        stages:
          make: {module: "own:make"}
          reads: {module: "own:reads", inputs: {field: make.field}}
    """)
    made.module(
        "own",
        """
        import numpy

        def make() -> dict:
            return {"field": numpy.arange(4.0)}

        def reads(field: str) -> dict:
            mapped = numpy.load(field, mmap_mode="r+")
            mapped[0] = 7.0
            return {"first": float(mapped[0])}
        """,
    )
    failure = made.run(code=1).failure("reads")
    assert failure["class"] == "changed"
    assert "field" in failure["message"]


def test_resume_makes_again_what_a_reader_spoiled(tmp_path: Path) -> None:
    spoil = "test ! -e ${{ run.dir }}/../spoil || sed -i s/one/two/ ${{ inputs.x }}"
    made = project(tmp_path, spoil)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/spoil").touch()
    made.run(code=1)
    (tmp_path / "runs/spoil").unlink()
    assert "out.txt of make/0" in made.diel("resume")
    run = made.newest()
    assert run.attempts("make") == [1, 2]
    assert run.attempts("first") == [1]
    assert (run.task_dir("make", attempt=2) / "out.txt").read_text() == "one\n"
    made.diel("verify")


@pytest.mark.parametrize(
    "edit",
    ["echo two > out.txt", "rm out.txt", "rm d/2", "echo 7 > d/2", "echo 4 > d/4", "sed -i s/3/4/ d/3"],
)
def test_an_edit_between_two_runs_is_no_result_of_the_cache(tmp_path: Path, edit: str) -> None:
    made = project(tmp_path)
    first = made.run()
    command = f"cd {first.task_dir('make')}; {edit}"
    Project(tmp_path / "edit").workflow(f"stages: {{e: {{command: '{command}'}}}}").run()
    second = made.run()
    assert second.counts("make") == {"done": 1}
    assert second.counts("first") == second.counts("reads") == {"cached": 1}  # the same was made again
    assert made.run().counts("make") == {"cached": 1}
    assert "make/0" in made.diel("verify", first.id, code=1)


def test_a_run_whose_files_were_copied_or_only_touched_still_serves(tmp_path: Path) -> None:
    made = project(tmp_path)
    first = made.run().root
    shutil.move(first, first.with_name("flow-7"))
    shutil.copytree(first.with_name("flow-7"), first)
    shutil.rmtree(first.with_name("flow-7"))
    for path in first.rglob("*.txt"):
        path.touch()
    assert set(made.run().counts("make")) == {"cached"}
