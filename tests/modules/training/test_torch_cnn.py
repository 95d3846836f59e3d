"""The convolutional network tells classes and numbers from lattices, and says what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import diel
from diel.workflow.modules.catalogue import find
from modules.simulation.ising import ising
from modules.training.torch_cnn import predict, torch_cnn

TEMPERATURES = (1.2, 1.7, 3.2, 4.0)
SIZE = 8


@pytest.fixture(scope="module")
def spins(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[Path]]:
    """Files of Ising configurations, one a temperature: made once for each seed."""
    files: dict[int, list[Path]] = {}

    def simulate(seed: int) -> list[Path]:
        if seed not in files:
            files[seed] = []
            for temperature in TEMPERATURES:
                folder = tmp_path_factory.mktemp("spins")
                result = ising(
                    temperature,
                    diel.Context(task_dir=folder),
                    size=SIZE,
                    sweeps=10,
                    equilibration=25,
                    algorithm="metropolis",
                    replicas=60,
                    seed=seed,
                )
                array = np.load(result["configuration"])
                array[::2] *= -1  # both signs, for all start up
                np.save(result["configuration"], array)
                files[seed].append(result["configuration"])
        return files[seed]

    return simulate


def energies(spins: NDArray[Any]) -> NDArray[np.float64]:
    """Per site, of periodic lattices of shape (n, size, size)."""
    wide = spins.astype(float)
    values: NDArray[np.float64] = -(wide * (np.roll(wide, 1, 1) + np.roll(wide, 1, 2))).mean(axis=(1, 2))
    return values


def saved(path: Path, array: NDArray[Any]) -> Path:
    np.save(path, array)
    return path


def bytes_of(model: Path) -> dict[str, bytes]:
    with np.load(model) as arrays:
        return {name: arrays[name].tobytes() for name in arrays}


def test_it_tells_ordered_from_disordered_lattices_that_it_never_saw(
    spins: Callable[[int], list[Path]], context: diel.Context
) -> None:
    result = torch_cnn(
        spins(1),
        context,
        targets=list(TEMPERATURES),  # one a file
        threshold=2.269185,
        periodic=True,
        channels=8,
        epochs=25,
        learning_rate=0.01,
    )
    assert result["accuracy"] > 0.95
    assert "r2" not in result
    prediction = predict(result["model"], spins(2), context)
    assert prediction["classes"] == ["above", "below"]
    assert prediction["count"] == 240
    probabilities = np.load(prediction["predictions"])
    assert probabilities.shape == (240, 2)
    assert probabilities.sum(axis=1) == pytest.approx(1)
    truly = np.repeat([t < 2.269185 for t in TEMPERATURES], 60)
    assert np.mean(probabilities.argmax(axis=1) == truly) > 0.95


def test_it_learns_the_energy_of_a_lattice_and_reads_larger_ones(
    spins: Callable[[int], list[Path]], context: diel.Context, tmp_path: Path
) -> None:
    targets = np.concatenate([energies(np.load(path)) for path in spins(1)])
    result = torch_cnn(
        spins(1),
        context,
        targets_file=saved(tmp_path / "energy.npy", targets),
        task="regression",
        periodic=True,
        blocks=1,
        epochs=40,
        learning_rate=0.01,
        schedule="cosine",
    )
    assert result["r2"] > 0.97
    assert result["mean_absolute_error"] < 0.1
    assert "accuracy" not in result
    new = np.load(spins(2)[2])
    twice = np.tile(new, (1, 2, 2))  # the same energy per site
    for images in (new, twice):
        prediction = predict(result["model"], saved(tmp_path / "new.npy", images), context)
        assert prediction["classes"] == []
        assert np.mean(np.abs(np.load(prediction["predictions"]) - energies(new))) < 0.15


def test_a_periodic_network_does_not_care_where_a_lattice_begins(
    spins: Callable[[int], list[Path]], context: diel.Context, tmp_path: Path
) -> None:
    there = np.load(spins(1)[1])
    moved = np.roll(there, (4, 4), axis=(1, 2))  # by whole pools of two blocks
    distances = []
    for periodic in (True, False):
        result = torch_cnn(
            spins(1), context, targets=list(TEMPERATURES), task="regression", periodic=periodic, epochs=2
        )
        predictions = [
            np.load(predict(result["model"], saved(tmp_path / "one.npy", images), context)["predictions"])
            for images in (there, moved)
        ]
        distances.append(np.abs(predictions[0] - predictions[1]).max())
    assert distances[0] < 1e-4 < distances[1]


def test_images_with_channels_and_classes_by_name(context: diel.Context, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.normal(size=(60, 3, 6, 7))
    names = ["red", "green", "blue"] * 20
    for place, name in enumerate(names):
        images[place, ("red", "green", "blue").index(name)] += 2
    path = saved(tmp_path / "images.npy", images)
    result = torch_cnn(path, context, targets=names, epochs=20, learning_rate=0.02, held_out=0.3)
    assert result["accuracy"] > 0.9
    assert predict(result["model"], path, context)["classes"] == ["blue", "green", "red"]
    labels = saved(tmp_path / "names.npy", np.array(names))
    again = torch_cnn(path, context, targets_file=labels, epochs=20, learning_rate=0.02, held_out=0.3)
    assert again["validation_loss"] == result["validation_loss"]


Continued = Callable[[Callable[[diel.Context], Any]], tuple[Any, int]]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_training_that_was_interrupted_after_each_step_ends_as_if_it_never_was(
    precision: Any, continued: Continued, context: diel.Context, spins: Callable[[int], list[Path]]
) -> None:
    options: dict[str, Any] = {
        "images": spins(1)[1:3],
        "targets": [1, 2],
        "epochs": 3,
        "channels": 4,
        "periodic": True,
        "precision": precision,
        "device": "cpu",
    }
    stopped, attempts = continued(lambda context: torch_cnn(context=context, **options))
    plain = torch_cnn(context=context, **options)
    assert attempts == 3 * 3  # 96 images, 32 at a time
    assert bytes_of(stopped["model"]) == bytes_of(plain["model"])
    assert stopped["history"].read_text() == plain["history"].read_text()
    metrics = [json.loads(line) for line in (context.task_dir / ".metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in metrics] == [1, 2, 3]
    assert min(row["validation_loss"] for row in metrics) == plain["validation_loss"]


def test_bounds_are_known_before_it_runs(root: Path) -> None:
    signature = find("training.torch_cnn", [root / "modules"]).signature
    assert signature.artifacts == {"model", "history"}
    wrong = {
        "kernel": 4,
        "blocks": 0,
        "task": "clustering",
        "periodic": "yes",
        "activation": "sine",
        "targets": [],
    }
    problems = signature.check({**wrong, "images": "spins.npy"}, deferred=())
    assert {name for name, _, _ in problems} == set(wrong)
    assert signature.check({"images": ["a.npy", "b.npy"], "targets": ["a", "b"]}, deferred=()) == []


ONES = np.ones((4, 6, 6), dtype=np.int8)


@pytest.mark.parametrize(
    ("images", "column", "message"),
    [
        ([ONES], {}, "exactly one of `targets` and `targets_file`"),
        ([ONES], {"targets": [0, 1, 0]}, "targets: expected 4 of them, one for each image; found 3"),
        ([ONES, ONES], {"targets": [0, 1, 0]}, "expected 8 of them, one for each image, or 2, one for each file"),
        ([ONES], {"targets": [0, 1, 0, float("nan")]}, "targets: found nan at 3"),
        ([ONES], {"targets": [1, 1, 1, 1]}, "two classes or more; all images are of '1'"),
        ([ONES], {"targets": [1, 2, 0.5, 1]}, "0.5 is no class; write task: regression"),
        ([ONES], {"targets": ["a", "b", "a", "b"], "task": "regression"}, "expected numbers; found 'a'"),
        ([ONES], {"targets": [1, 2, 3, 4], "task": "regression", "threshold": 2}, "threshold: makes classes"),
        ([ONES[:1]], {"targets": [1]}, "at least 2"),
        ([ONES[0]], {"targets": [1] * 6}, r"0\.npy has the shape \(6, 6\); expected \(images, height, width\)"),
        ([ONES[:0]], {"targets": [1]}, "at least one image"),
        ([ONES, ONES[:, :4]], {"targets": [0, 1]}, r"1\.npy holds images of 1 × 4 × 6 .* of 1 × 6 × 6"),
        ([ONES * np.array([1.0, np.inf, 1, 1])[:, None, None]], {"targets": [0, 1, 0, 1]}, r"0\.npy: found inf at \(1, 0, 0\)"),
        ([np.array(["a"])], {"targets": [1]}, r"0\.npy holds <U1; expected one array of numbers"),
        ([ONES], {"targets": [0, 1, 0, 1], "blocks": 3}, "at least 8 sites a side; these have 6 × 6"),
        ([], {"targets": [1]}, "at least one file"),
    ],
)  # fmt: skip
def test_data_that_make_no_sense_are_refused(
    images: list[NDArray[Any]], column: Any, message: str, context: diel.Context, tmp_path: Path
) -> None:
    paths = [saved(tmp_path / f"{number}.npy", array) for number, array in enumerate(images)]
    with pytest.raises(ValueError, match=message):
        torch_cnn(paths, context, **column)


def test_a_file_that_cannot_be_read_is_named(context: diel.Context, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"images: .*gone\.npy cannot be read: No such file"):
        torch_cnn(tmp_path / "gone.npy", context, targets=[1.0])
    (tmp_path / "text.npy").write_text("spins")
    with pytest.raises(ValueError, match=r"images: .*text\.npy is no \.npy file of numbers"):
        torch_cnn(tmp_path / "text.npy", context, targets=[1.0])


def test_what_is_no_model_is_refused(context: diel.Context, tmp_path: Path) -> None:
    images = saved(tmp_path / "images.npy", ONES)
    np.savez(tmp_path / "other.npz", weight_0=np.ones(3))
    for path in (tmp_path / "other.npz", images):
        with pytest.raises(ValueError, match=rf"{path.name} is no model of training\.torch_cnn"):
            predict(path, images, context)
    model = torch_cnn(images, context, targets=[0.0, 1.0, 0.0, 1.0], epochs=1)["model"]
    two = saved(tmp_path / "two.npy", np.ones((1, 2, 6, 6)))
    with pytest.raises(ValueError, match="the model reads 1 channels; the images have 2"):
        predict(model, two, context)
