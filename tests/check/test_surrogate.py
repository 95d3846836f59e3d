"""A surrogate stands for a simulation, and its model learns from nothing that it said itself.

The messages themselves stand in tests/broken, in the files that begin with surrogate-.
"""

from __future__ import annotations

from pathlib import Path

from tests.check.asking import checked, the_problem

FLOW = """
axes: {{round: {{loop: {{max: 3}}}}, x: {{values: [0.5, 1.0]}}}}
stages:
  train: {{over: [round], command: [fit], params: {params}, inputs: {{{reads}}}, outputs: {{model: m.pt}}}}
  serve:
    command: [serve]
    inputs: {{model: {{from: train.model, at: {{round: last}}, initially: m.pt}}}}
    service: {{reload: true}}
  s:
    kind: {kind}
    over: [round, x]
    command: [simulate]
    params: {{t: 1}}
    outputs: {{y: {{value: float}}, n: {{value: int}}}}
    surrogate: {{service: serve, tolerance: 0.1, outputs: [{outputs}]{more}}}
"""
BEFORE = "from: s.{}, at: {{round: previous}}, initially: []"


def flow(
    params: str = "{}", reads: str = "", outputs: str = "y", more: str = "", kind: str = "simulation"
) -> str:
    return FLOW.format(params=params, reads=reads, outputs=outputs, more=more, kind=kind)


def reading(*names: str) -> str:
    return ", ".join(f"{name}: {{{BEFORE.format(name)}}}" for name in names)


def test_parameters_of_axes_and_of_the_stage_itself_can_be_sent(folder: Path) -> None:
    checked(folder, flow(more=", inputs: [x, t]"))
    problem = the_problem(folder, flow(more=", inputs: [x, tt]"))
    assert (problem.key, problem.message) == ("stages.s.surrogate.inputs.1", "'s' has no parameter 'tt'")
    assert problem.hint == "did you mean 't'?"


def test_a_model_learns_from_what_it_said_only_where_it_can_tell_it_from_what_was_simulated(
    folder: Path,
) -> None:
    checked(folder, flow(reads=reading("y", "simulated")))
    problem = the_problem(folder, flow(reads=reading("y")))
    assert problem.message.startswith("'train' would teach the model its own answers: s.y")
    assert "where(s.y, s.simulated)" in problem.hint


def test_a_model_is_asked_for_what_its_training_names(folder: Path) -> None:
    checked(folder, flow(params="{target: y, features: [x, t]}"))
    problem = the_problem(folder, flow(params="{target: y, features: [x, z]}"))
    assert "reads 'z' ('train' says so), which is not sent" in problem.message
    problem = the_problem(folder, flow(params="{target: z, features: [x]}"))
    assert (problem.key, problem.hint) == ("stages.s.surrogate.outputs", "write outputs: [z]")


def test_only_numbers_of_type_float_are_answered(folder: Path) -> None:
    problem = the_problem(folder, flow(outputs="n"))
    assert problem.message == "'n' is of type int, and a surrogate answers numbers of type float"
    assert problem.key == "stages.s.surrogate.outputs.0"


def test_what_is_not_answered_is_not_read(folder: Path) -> None:
    stage = "  use: {command: [use], over: [round], inputs: {n: s.n}}\n"
    problem = the_problem(folder, flow() + stage)
    assert problem.message.startswith("s.n is missing for tasks that the surrogate answers")
    checked(folder, flow() + stage.replace("n: s.n", "y: s.y, simulated: s.simulated"))


def test_only_a_simulation_has_a_stand_in(folder: Path) -> None:
    problem = the_problem(folder, flow(kind="analysis"))
    assert problem.message == "a surrogate replaces a simulation, and 's' is an analysis"
