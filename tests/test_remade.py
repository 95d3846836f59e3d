"""What is made anew makes anew what rests on it, where it is another result than before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.throwaway import Project, Run

NEXT = 'n=$(cat "$DIEL_RUN_DIR/../n" 2> /dev/null || echo 0); echo $((n + 1)) > "$DIEL_RUN_DIR/../n"'
"""How often a task of some run ran: its result differs with that where `CHANGES` is written."""


def interrupted(folder: Path, text: str, lost: str) -> tuple[Project, Run]:
    """A run that failed at its last stage, whose first lost its files."""
    made = Project(folder).workflow(text)
    run = made.run(code=1)
    shutil.rmtree(run.root / "tasks" / lost)
    (run.root / "go").touch()
    return made, run


def latest(run: Run, stage: str, name: str) -> list[object]:
    """The values of a stage's tasks as `diel results` prints them: the last attempt counts."""
    values = {record["index"]: record["values"][name] for record in run.records("done", stage)}
    return [values[index] for index in sorted(values)]


LINEAR = f"""
    axes: {{i: {{range: 3}}}}
    stages:
      make: {{command: '{NEXT}; echo WRITTEN > x', outputs: {{x: x}}}}
      match:
        over: [i]
        command: 'echo "{{\\"v\\": $(cat ${{{{ make.x }}}})}}" > "$DIEL_RESULT"'
        outputs: {{v: {{value: int}}}}
      gather:
        command: 'echo "{{\\"v\\": ${{{{ sum(match.v) }}}}}}" > "$DIEL_RESULT"'
        outputs: {{v: {{value: int}}}}
      apart: {{command: 'true'}}
      last:
        after: [gather, apart]
        inputs: {{x: make.x}}
        command: 'test -e $DIEL_RUN_DIR/go && echo "{{\\"v\\": $(cat ${{{{ inputs.x }}}})}}" > "$DIEL_RESULT"'
        outputs: {{v: {{value: int}}}}
"""


def test_readers_of_another_result_are_computed_again(tmp_path: Path) -> None:
    made, run = interrupted(tmp_path, LINEAR.replace("WRITTEN", "$n"), "make")
    made.diel("resume")
    assert latest(run, "match", "v") == [1, 1, 1]
    assert (latest(run, "gather", "v"), latest(run, "last", "v")) == ([3], [1])
    assert run.attempts("apart") == [1]
    assert made.diel("results", "last", "match.v", "--csv").splitlines()[1:] == ["0,1", "1,1", "2,1"]


def test_resume_says_of_each_file_whether_it_is_gone_or_another_and_who_made_it(tmp_path: Path) -> None:
    made = Project(tmp_path).workflow(
        """
        axes: {i: {range: 3}}
        stages:
          make: {over: [i], command: 'mkdir d; echo 1 > x; echo 1 > d/y', outputs: {x: x, d: d}}
          last:
            over: [i]
            inputs: {x: make.x, d: make.d}
            command: 'test -e $DIEL_RUN_DIR/go'
        """
    )
    run = made.run(code=1)
    (run.task_dir("make", 0) / "x").unlink()
    (run.task_dir("make", 1) / "x").write_text("12\n")
    (run.task_dir("make", 2) / "d/y").unlink()
    (run.root / "go").touch()
    assert (
        "flow-1/tasks/make/0/x of make/0: it is gone; "
        "flow-1/tasks/make/1/x of make/1: it has 3 bytes and had 2; "
        "flow-1/tasks/make/2/d of make/2: its file 'y' is gone; make/0-2 will run again, for others have yet to read what they made"
    ) in " ".join(made.diel("resume").split())


def test_the_same_result_makes_nothing_else_again(tmp_path: Path) -> None:
    made, run = interrupted(tmp_path, LINEAR.replace("WRITTEN", "5"), "make")
    made.diel("resume")
    assert run.attempts("make") == [1, 2]
    assert [run.attempts(stage) for stage in ("match", "gather", "apart")] == [[1]] * 3


@pytest.mark.parametrize(("first", "second"), [("1 2 3", "7 8 9 6"), ("1 2 3", "4 5"), ("1 2", "3 4")])
def test_an_axis_that_is_made_again_has_the_new_points_alone(tmp_path: Path, first: str, second: str) -> None:
    made, run = interrupted(
        tmp_path,
        f"""
        axes: {{a: {{from: make.x}}}}
        stages:
          make:
            command: '{NEXT}; echo a > x.csv; test $n = 0 && l="{first}" || l="{second}"; printf "%s\\n" $l >> x.csv'
            outputs: {{x: x.csv}}
          over:
            over: [a]
            command: 'echo "{{\\"v\\": ${{{{ 10 * a }}}}}}" > "$DIEL_RESULT"'
            outputs: {{v: {{value: int}}}}
          last: {{after: [over], inputs: {{x: make.x}}, command: 'test -e $DIEL_RUN_DIR/go'}}
        """,
        "make",
    )
    made.diel("resume")
    expected = [f"{value},{10 * int(value)}" for value in second.split()]
    assert made.diel("results", "last", "over.v", "--csv").splitlines()[1:] == expected
    assert len(run.history().stage("over").states) == len(expected)
    assert "nothing to do" in made.diel("resume")


SEARCH = """
    hyperparameters: {h: {type: int, default: 0, low: 0, high: 9}}
    axes: {trial: {search: {sampler: grid, trials: 5, minimize: train.loss, parameters: [h]}}}
    stages:
      train:
        over: [trial]
        command: 'test -e "$DIEL_RUN_DIR/go" && n=7 || n=1; h=${{ hp.h }}; echo MODEL > m; echo "{\\"loss\\": LOSS}" > "$DIEL_RESULT"'
        outputs: {model: m, loss: {value: int}}
      use:
        inputs: {model: {from: train.model, at: {trial: best}}}
        command: 'cp ${{ inputs.model }} m; test -e "$DIEL_RUN_DIR/go"'
        outputs: {m: m}
"""


def test_decisions_do_not_rest_on_two_results_of_one_trial(tmp_path: Path) -> None:
    text = SEARCH.replace("MODEL", "${{ hp.h }}").replace("LOSS", "$(( (n + h) % 7 ))")
    made, run = interrupted(tmp_path, text, "train")
    said = made.diel("resume", code=1)
    assert "changed" in said
    failure = run.records("failed")[-1]
    assert "the points of trial rest on the former" in failure["message"]
    made.diel("resume", code=1)
    assert run.counts("use") == {"skipped": 1}


def test_a_search_whose_best_model_is_made_again_goes_on_with_it(tmp_path: Path) -> None:
    text = SEARCH.replace("MODEL", "$n$h").replace("LOSS", "${{ hp.h }}")
    made, run = interrupted(tmp_path, text, "train")
    made.diel("resume")
    models = [(run.task_dir("train", trial, attempt=2) / "m").read_text() for trial in range(5)]
    best = min(run.records("trial"), key=lambda record: record["hp"]["h"])["number"]
    assert {model[0] for model in models} == {"7"}
    assert (run.task_dir("use", attempt=2) / "m").read_text() == models[best]
    assert len(run.records("judged")) == 5


def test_a_checkpoint_of_what_is_computed_again_is_gone(tmp_path: Path) -> None:
    text = LINEAR.replace("WRITTEN", "$n").replace(
        '        command: \'echo "{\\"v\\": $(cat ${{ make.x }})}"',
        "        checkpoint: true\n        command: 'c=$DIEL_CHECKPOINT_DIR/c; test -e $c || cp ${{ make.x }} $c; "
        'echo "{\\"v\\": $(cat $c)}"',
    )
    assert "checkpoint" in text
    made, run = interrupted(tmp_path, text, "make")
    made.diel("resume")
    assert latest(run, "match", "v") == [1, 1, 1]


def test_what_has_run_on_a_remade_result_is_not_made_again(tmp_path: Path) -> None:
    """Its input is deleted by then, so that the run would never end."""
    text = f"""
        stages:
          make: {{command: '{NEXT}; echo $n > x', outputs: {{x: {{path: x, keep: false}}}}}}
          copy: {{inputs: {{x: make.x}}, command: 'cp ${{{{ inputs.x }}}} y', outputs: {{y: y}}}}
          last:
            command: 'test -e $DIEL_RUN_DIR/go && echo "{{\\"v\\": $(cat ${{{{ copy.y }}}})}}" > "$DIEL_RESULT"'
            outputs: {{v: {{value: int}}}}
    """
    made, run = interrupted(tmp_path, text, "copy")
    made.diel("resume")
    assert (run.attempts("make"), run.attempts("copy")) == ([1, 2], [1, 2])
    assert latest(run, "last", "v") == [1]
