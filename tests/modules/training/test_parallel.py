"""A network that is trained over a mesh of ranks is the one that a single rank trains."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diel

torch = pytest.importorskip("torch", reason="diel[torch] is not installed")
pytest.importorskip("mpi4py", reason="diel[mpi] is not installed")

from modules.training.parallel import parallel  # noqa: E402 - it imports PyTorch

OWN = """
import torch
from torch import nn

from diel.ml.pytorch.parallel.networks import Mix

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 3))
        self.scale = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        return self.layers(x.flatten(1)) * self.scale

class Tied(nn.Sequential):
    def __init__(self):
        shared = nn.Linear(6, 6)
        super().__init__(shared, nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), shared, nn.Linear(6, 3))

class TiedMix(nn.Sequential):
    def __init__(self):
        one, other = Mix(6), Mix(6)
        other.up.weight = one.up.weight
        super().__init__(one, other, nn.Linear(6, 3))

class Drop(nn.Sequential):
    def __init__(self):
        super().__init__(Mix(6), nn.Dropout(0.5), nn.Linear(6, 3))

class Mask(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Dropout(0.5), nn.Linear(500, 1, bias=False))
        nn.init.zeros_(self[1].weight)
"""
"""Networks of a user."""


def on_ranks(folder: Path, root: Path, ranks: int, what: str) -> subprocess.CompletedProcess[str]:
    """Calls a function of `meshes` on MPI ranks, with warnings as errors."""
    launcher = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert launcher, "mpiexec is not there: pip install 'diel[mpi]'"
    code = f"from tests.modules.training import meshes; meshes.{what}()"
    env = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    words = [launcher, "-n", str(ranks), sys.executable, "-W", "error", "-c", code]
    return subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=500, check=False
    )


@pytest.fixture(scope="module")
def differences(tmp_path_factory: pytest.TempPathFactory, root: Path) -> dict[str, float]:
    """The largest difference of any weight from those of a single rank, by the case: all in one start of MPI.

    One case goes on where a training of two ranks was killed.
    """
    folder = tmp_path_factory.mktemp("meshes")
    (folder / "own.py").write_text(OWN)
    assert on_ranks(folder, root, 2, "killed").returncode != 0
    assert [path.name for path in (folder / "killed/0.checkpoint").glob("step-*")] == ["step-10"]
    done = on_ranks(folder, root, 4, "compare")
    assert done.returncode == 0, done.stderr
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return values


@pytest.mark.parametrize("case", ["data 2", "data 4", "shards 2", "shards 4", "tied"])
def test_ranks_that_share_the_data_train_the_network_of_one(case: str, differences: dict[str, float]) -> None:
    assert differences[case] < 1e-12  # in fp64 after 20 steps with momentum


@pytest.mark.parametrize(
    "case",
    ["tensor", "tensor with dropout", "gpipe", "data × tensor", "shards × pipeline", "pipeline × tensor"],
)
def test_the_gradients_of_split_layers_and_of_pipelines_are_those_of_one_rank(
    case: str, differences: dict[str, float]
) -> None:
    assert differences[case] < 1e-12


@pytest.mark.parametrize("model", ["cnn", "lstm", "transformer", "unet"])
def test_each_network_can_be_cut(model: str, differences: dict[str, float]) -> None:
    assert differences[model] < 1e-12


def test_another_mesh_goes_on_where_one_was_killed(differences: dict[str, float]) -> None:
    assert differences["resumed"] < 1e-12


def test_a_damaged_checkpoint_of_a_task_is_left_out_by_all_ranks(root: Path, tmp_path: Path) -> None:
    done = on_ranks(tmp_path, root, 2, "damaged")
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.splitlines()[-1]) == 0
    left_out = [line for line in done.stderr.splitlines() if line.startswith("a checkpoint is left out: ")]
    assert [line.partition("0.checkpoint/")[2][:18] for line in left_out] == [
        "step-15 is damaged",
        "step-15 is damaged",
        "step-10 is damaged",
    ]


def test_a_training_whose_steps_are_done_gives_what_is_known(context: diel.Context, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(8, 3)))
    np.save(tmp_path / "y.npy", np.arange(8) % 2)
    options: dict[str, Any] = {"data": tmp_path / "x.npy", "targets": tmp_path / "y.npy", "batch": 8}
    saving = dataclasses.replace(context, checkpoint=True)
    done = parallel("mlp", context=saving, **options, steps=5, save_every=4, report_every=100)
    start = saving.checkpoint_dir / "step-4"
    four = parallel("mlp", context=context, **options, steps=4, start=start)
    assert four["steps"] == 4
    assert four["loss"] > done["loss"]  # the mean of four steps, not of five
    assert parallel("mlp", context=context, **options, steps=3, start=start)["loss"] == four["loss"]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("__0_0.distcp", b"PK", "given is damaged, or of another network or optimizer: "),
        (".metadata", b"", "given/.metadata is damaged: EOFError: "),
        (".metadata", None, "given/.metadata is damaged: FileNotFoundError: "),
        ("training.json", b'{"step": 20', "given/training.json is damaged: JSONDecodeError: "),
        ("training.json", b'{"step": 20}', "given/training.json is damaged: KeyError: 'history'"),
    ],
)
def test_a_damaged_checkpoint_that_a_user_names_is_told(
    file: str, content: bytes | None, message: str, context: diel.Context, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((8, 3)))
    np.save(tmp_path / "y.npy", np.arange(8) % 2)
    options: dict[str, Any] = {"data": tmp_path / "x.npy", "targets": tmp_path / "y.npy", "context": context}
    checkpoint = parallel("mlp", **options, batch=4, steps=1)["checkpoint"].rename(tmp_path / "given")
    (checkpoint / file).unlink() if content is None else (checkpoint / file).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path}/{message}")):
        parallel("mlp", **options, batch=4, steps=2, start=checkpoint)


def test_files_and_settings_that_do_not_fit_are_told(context: diel.Context, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((8, 3)))
    np.save(tmp_path / "y.npy", np.arange(8) % 2)
    options: dict[str, Any] = {"data": tmp_path / "x.npy", "targets": tmp_path / "y.npy", "context": context}
    with pytest.raises(ValueError, match="pipeline 2 × tensor 1 are 2 ranks, but the task has 1"):
        parallel("mlp", **options, mesh={"pipeline": 2})
    with pytest.raises(ValueError, match="no network 'mpl'"):
        parallel("mpl", **options)
    with pytest.raises(ValueError, match="batch: 64 are more than the 8 there are"):
        parallel("mlp", **options)
    with pytest.raises(ValueError, match="samples of shape"):
        parallel("lstm", **options, batch=4)
    with pytest.raises(ValueError, match="no checkpoint in"):
        parallel("mlp", **options, batch=4, start=tmp_path)
    with pytest.raises(ValueError, match="whole numbers from 1 on, found {'width': 0}"):
        parallel("mlp", **options, batch=4, settings={"width": 0})
    with pytest.raises(ValueError, match="test and test_targets belong together"):
        parallel("mlp", **options, batch=4, test=tmp_path / "x.npy")
    with pytest.raises(ValueError, match="classes from 0 to 0, found 0 to 1"):
        parallel("mlp", **options, batch=8, outputs=1)
    np.save(tmp_path / "x.npy", np.full((8, 3), 1j))
    with pytest.raises(ValueError, match=r"expected numbers of shape .* found complex128"):
        parallel("mlp", **options, batch=4)
    np.save(tmp_path / "x.npy", np.full((8, 4, 4), np.nan))
    with pytest.raises(ValueError, match="not finite"):
        parallel("mlp", **options, batch=4)
    np.save(tmp_path / "x.npy", np.arange(128).reshape(8, 4, 4))
    with pytest.raises(ValueError, match=r"the network says \(4, 2, 4, 4\), and targets are \(4,\)"):
        parallel("unet", **options, batch=4)


@pytest.mark.parametrize("shape", [(16, 4, 4), (16, 1, 4, 4), (16, 2, 4, 4)])
def test_fields_have_channels_or_none(shape: tuple[int, ...], context: diel.Context, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", 2 * x)
    options: dict[str, Any] = {
        "targets": tmp_path / "y.npy",
        "batch": 16,
        "settings": {"width": 4, "depth": 1},
    }
    first, later = (
        parallel("unet", tmp_path / "x.npy", context, **options, steps=steps, learning_rate=0.02)["loss"]
        for steps in (1, 60)
    )
    assert later < first / 2


@pytest.mark.parametrize(
    ("rows", "targets", "message"),
    [
        (
            np.zeros((4, 2)),
            np.arange(4) % 2,
            r"test: expected rows of shape \(3,\), as data has, found \(4, 2\)",
        ),
        (np.zeros((4, 3)), np.arange(5) % 2, r"test_targets: expected numbers of shape \(4,\), found \(5,\)"),
        (np.zeros((4, 3)), np.arange(4) % 3, "test_targets: expected classes from 0 to 1, found 0 to 2"),
        (np.zeros((4, 3)), np.arange(4) / 3, "test_targets: expected classes from 0 to 1, found 0.0 to 1.0"),
    ],
)
def test_rows_to_judge_by_are_checked_before_the_first_step(
    rows: Any, targets: Any, message: str, context: diel.Context, tmp_path: Path
) -> None:
    options: dict[str, Any] = {}
    arrays = {"data": np.zeros((8, 3)), "targets": np.arange(8) % 2, "test": rows, "test_targets": targets}
    for name, array in arrays.items():
        options[name] = tmp_path / f"{name}.npy"
        np.save(options[name], array)
    with pytest.raises(ValueError, match=message):
        parallel("mlp", context=context, **options, batch=8)
    assert not (context.task_dir / "checkpoint").exists()


def test_words_of_a_vocabulary_are_not_scaled(context: diel.Context, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(32).reshape(8, 4) % 5)
    np.save(tmp_path / "y.npy", np.arange(8) % 2)
    options: dict[str, Any] = {
        "targets": tmp_path / "y.npy",
        "steps": 2,
        "batch": 4,
        "settings": {"vocabulary": 5},
    }
    with pytest.raises(ValueError, match="standardise: false"):
        parallel("transformer", tmp_path / "x.npy", context, **options)
    assert parallel("transformer", tmp_path / "x.npy", context, **options, standardise=False)["steps"] == 2


def test_files_are_read_without_shards_too(context: diel.Context, tmp_path: Path) -> None:
    rng, files = np.random.default_rng(0), [tmp_path / f"{number}.npz" for number in range(3)]
    for file in files:
        np.savez(file, inputs=rng.normal(size=(4, 3)), targets=np.arange(4) % 2)
    assert parallel("mlp", files, context, steps=3, batch=1)["steps"] == 3
    np.savez(files[1], inputs=rng.normal(size=(5, 3)), targets=np.arange(5) % 2)
    with pytest.raises(ValueError, match="differ in their numbers of rows"):
        parallel("mlp", files, context, steps=3, batch=1)


def test_a_class_of_a_file_is_trained_and_its_weights_have_their_names(
    context: diel.Context, tmp_path: Path
) -> None:
    source = (
        "import torch\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(3, 1)\n"
    )
    (tmp_path / "own.py").write_text(source)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", x @ [1.0, -2.0, 3.0] + 0.5)
    result = parallel(
        f"{tmp_path}/own.py:Net",
        tmp_path / "x.npy",
        context,
        targets=tmp_path / "y.npy",
        standardise=False,
        precision="fp64",
        optimizer="sgd",
        learning_rate=0.1,
        batch=64,
        steps=100,
    )
    with np.load(result["weights"]) as arrays:
        assert sorted(arrays) == ["bias", "weight"]
        assert arrays["weight"] == pytest.approx(np.array([[1, -2, 3]]), abs=0.02)
        assert arrays["bias"] == pytest.approx(0.5, abs=0.02)


def test_a_network_of_layers_keeps_what_its_own_forward_computes(
    context: diel.Context, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(24, 3, 4)))
    np.save(tmp_path / "y.npy", np.arange(24) % 3)
    options: dict[str, Any] = {"data": tmp_path / "x.npy", "targets": tmp_path / "y.npy", "batch": 24}
    options |= {"test": tmp_path / "x.npy", "test_targets": tmp_path / "y.npy"}
    result = parallel(f"{tmp_path}/own.py:Net", context=context, **options, steps=1)
    assert result["loss"] == pytest.approx(np.log(3))  # all that is multiplied by the scale of 0 is equal
    with np.load(result["weights"]) as arrays:
        assert sorted(arrays) == ["layers.0.bias", "layers.0.weight", "scale"]
        assert np.abs(arrays["scale"]).min() > 0
    assert parallel(f"{tmp_path}/own.py:Net", context=context, **options)["test_loss"] < result["test_loss"]


def test_a_network_that_a_mesh_cannot_cut_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    done = on_ranks(tmp_path, root, 2, "refused")
    assert done.returncode == 0, done.stderr
    forward, tied, split = json.loads(done.stdout.splitlines()[-1])
    assert "a pipeline takes a torch.nn.Sequential, whose layers follow each other, and Net has" in forward
    assert "layers 0 and 4 share a weight, and a pipeline of 2 would put them on different ranks" in tied
    assert "tensor cannot split a Mix that shares a weight with another layer" in split


def test_ranks_with_other_rows_drop_other_numbers(root: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    done = on_ranks(tmp_path, root, 2, "dropped")
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.splitlines()[-1]) == pytest.approx(0.25, abs=0.06)  # on both


def test_dropout_is_that_of_the_seed_and_of_a_training_that_never_stopped(
    context: diel.Context,
    continued: Callable[[Callable[[diel.Context], Any]], tuple[Any, int]],
    tmp_path: Path,
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(24, 6)))
    np.save(tmp_path / "y.npy", np.arange(24) % 3)

    def train(context: diel.Context, seed: int = 3) -> Any:
        how: dict[str, Any] = {"targets": tmp_path / "y.npy", "steps": 6, "batch": 8, "seed": seed}
        return parallel(f"{tmp_path}/own.py:Drop", tmp_path / "x.npy", context, **how)

    once, again, other = (train(context, seed)["loss"] for seed in (3, 3, 4))
    stopped, attempts = continued(train)
    assert attempts == 6
    assert once == again == stopped["loss"] != other


def test_activations_that_are_computed_again_take_less_memory(
    context: diel.Context, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(64, 8, 4)))
    np.save(tmp_path / "y.npy", np.arange(64) % 2)
    options: dict[str, Any] = {"data": tmp_path / "x.npy", "targets": tmp_path / "y.npy", "steps": 3}
    stored, again = (
        parallel("transformer", context=context, **options, activations=how) for how in ("store", "recompute")
    )
    assert again["peak_mib"] < 0.7 * stored["peak_mib"]
    assert again["loss"] == stored["loss"]
    output = capsys.readouterr().out
    assert "activations stored: " in output
    assert "activations recomputed: " in output


def test_a_step_that_overflows_in_half_precision_is_left_out(context: diel.Context, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(64, 4)))
    np.save(tmp_path / "y.npy", 100 * np.ones(64))  # gradients beyond 65504 once they are scaled
    result = parallel(
        "mlp", tmp_path / "x.npy", context, targets=tmp_path / "y.npy", precision="fp16", steps=12, batch=64
    )
    assert 0 < result["skipped"] < 12
    assert np.isfinite(result["loss"])


def test_the_loss_is_scaled_in_half_precision_wherever_a_training_began(
    context: diel.Context, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(64, 4)))
    np.save(tmp_path / "y.npy", 100 * np.ones(64))
    options: dict[str, Any] = {"data": tmp_path / "x.npy", "targets": tmp_path / "y.npy", "context": context}

    def train(precision: Any, steps: int, start: Path | None) -> tuple[Path, dict[str, Any]]:
        result = parallel("mlp", **options, precision=precision, steps=steps, start=start)
        checkpoint = result["checkpoint"].rename(tmp_path / f"{precision} {steps}")
        scaler: dict[str, Any] = json.loads((checkpoint / "training.json").read_text())["scaler"]
        assert result["skipped"] == scaler["skipped"]
        return checkpoint, scaler

    begun, _ = train("fp32", 4, None)
    half, first = train("fp16", 8, begun)
    assert 1 < first["scale"] == 2**16 / 2 ** first["skipped"]
    _, more = train("fp16", 12, half)
    assert 1 < more["scale"] == 2**16 / 2 ** more["skipped"]
    _, whole = train("fp32", 12, half)
    assert (whole["scale"], whole["skipped"]) == (1, first["skipped"])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU here")
def test_a_gpu_trains_the_network_of_a_cpu(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(64, 8, 4)))
    np.save(tmp_path / "y.npy", np.arange(64) % 2)
    trained = []
    for device in ("cpu", "cuda"):
        (tmp_path / device).mkdir()
        context = diel.Context(tmp_path / device)
        options: dict[str, Any] = {"targets": tmp_path / "y.npy", "steps": 20, "precision": "fp64"}
        result = parallel("transformer", tmp_path / "x.npy", context, device=device, **options)
        trained.append(dict(np.load(result["weights"])))
    on_cpu, on_gpu = trained
    assert max(float(np.abs(on_cpu[name] - on_gpu[name]).max()) for name in on_cpu) < 1e-6
