"""A training on PyTorch that is stopped at any moment ends with the very weights of an undisturbed one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import diel
from diel import pytorch
from diel import pytorch as saving
from diel.ml.pytorch import Best, Progress, Saver, Settings

CPU = torch.device("cpu")
X = torch.linspace(-1, 1, 50)[:, None]
ROWS = pytorch.Rows(X, (X**2)[:, 0])
HELD = pytorch.Rows(X[::7] + 0.01, ((X[::7] + 0.01) ** 2)[:, 0])


def square(said: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(said[:, 0], wanted)


def network() -> torch.nn.Module:
    """With layers that draw random numbers, and that keep a state of their own."""
    with pytorch.seeded(3):
        return torch.nn.Sequential(
            torch.nn.Linear(1, 16),
            torch.nn.BatchNorm1d(16),
            torch.nn.Tanh(),
            torch.nn.Dropout(0.1),
            torch.nn.Linear(16, 1),
        )


def settings(**other: Any) -> pytorch.Settings:
    return pytorch.Settings(**{"learning_rate": 0.01, "epochs": 12, "batch": 8, "device": CPU, **other})


def reported(context: diel.Context) -> list[dict[str, float]]:
    return [json.loads(line) for line in (context.task_dir / ".metrics.jsonl").read_text().splitlines()]


def train(context: diel.Context, how: pytorch.Settings) -> tuple[pytorch.Trained, dict[str, torch.Tensor]]:
    made = network()
    with pytorch.reproducible():
        trained = pytorch.train(made, ROWS, HELD, square, how, context)
    return trained, made.state_dict()


@pytest.fixture
def attempt(tmp_path: Path) -> Callable[..., diel.Context]:
    """Contexts of one task's attempts, one after the other."""
    count = iter(range(1, 1000))

    def make(**other: Any) -> diel.Context:
        number = next(count)
        task_dir = tmp_path / f"0.{number}"
        task_dir.mkdir()
        return diel.Context(task_dir=task_dir, attempt=number, **other)

    return make


def assert_same(
    ours: tuple[pytorch.Trained, dict[str, torch.Tensor]],
    theirs: tuple[pytorch.Trained, dict[str, torch.Tensor]],
) -> None:
    assert ours[0].history == theirs[0].history
    assert ours[0].best.epoch == theirs[0].best.epoch
    assert ours[1].keys() == theirs[1].keys()
    assert all(torch.equal(ours[1][name], theirs[1][name]) for name in ours[1])


WAYS: list[dict[str, Any]] = [
    {"optimizer": "adam", "schedule": "cosine"},
    {"optimizer": "adamw", "weight_decay": 0.1, "precision": "bf16"},
    {"optimizer": "sgd", "momentum": 0.8, "precision": "fp16"},
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: str(way["optimizer"]))
def test_a_training_interrupted_after_every_step_ends_as_if_it_never_was(
    way: dict[str, Any], attempt: Callable[..., diel.Context]
) -> None:
    how = settings(epochs=4, **way)
    plain = train(attempt(), how)
    for _ in range(4 * 7 - 1):  # a step each: 50 rows, 8 at a time
        with pytest.raises(diel.Interrupted):
            train(attempt(checkpoint=True, interrupt_at=0.0), how)
    assert_same(train(attempt(checkpoint=True, interrupt_at=0.0), how), plain)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: str(way["optimizer"]))
def test_a_training_that_breaks_at_a_random_epoch_ends_as_if_it_never_had(
    way: dict[str, Any], attempt: Callable[..., diel.Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(str(way))
    how = settings(**way)
    plain = train(attempt(), how)
    monkeypatch.setattr(saving, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(saving, "SAVE_RATIO", 0.0)
    for broken_at in (dice.randint(1, 6), dice.randint(7, 12)):
        context = attempt(checkpoint=True)
        report = diel.Context.report

        def breaks(self: diel.Context, epoch: int = 0, last: int = broken_at, **metrics: float) -> None:
            if epoch == last:
                raise RuntimeError("struck by lightning")
            report(self, epoch=epoch, **metrics)  # noqa: B023 - called within this round alone

        with monkeypatch.context() as patched:
            patched.setattr(diel.Context, "report", breaks)
            with pytest.raises(RuntimeError, match="lightning"):
                train(context, how)
    context = attempt(checkpoint=True)
    ended = train(context, how)
    assert_same(ended, plain)
    assert reported(context)[0]["epoch"] == broken_at  # from there on, not from the start


def test_without_checkpoints_nothing_is_saved(attempt: Callable[..., diel.Context], tmp_path: Path) -> None:
    train(attempt(), settings())
    assert not list(tmp_path.rglob("*.pt"))


def test_each_epoch_is_reported_and_the_best_ones_weights_stay(attempt: Callable[..., diel.Context]) -> None:
    context = attempt()
    trained, _ = train(context, settings(epochs=200, learning_rate=0.1, patience=4))
    rows = reported(context)
    assert [row["epoch"] for row in rows] == list(range(1, trained.epochs + 1))
    best = min(rows, key=lambda row: row["validation_loss"])
    assert trained.best.epoch == best["epoch"] == trained.epochs - 4 < 100
    assert trained.best.loss == best["loss"]
    made = network()
    made.load_state_dict(trained.best.weights)
    again = square(pytorch.outputs(made, HELD.inputs, 8, CPU), HELD.targets)
    assert float(again) == best["validation_loss"]


def test_a_training_leaves_the_workers_random_numbers_and_threads_alone(
    attempt: Callable[..., diel.Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.manual_seed(9)
    expected = torch.rand(3)
    torch.manual_seed(9)
    try:
        train(attempt(), settings(epochs=1))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert torch.equal(torch.rand(3), expected)
    assert not torch.are_deterministic_algorithms_enabled()


def test_half_precision_differs_from_single_but_learns_as_well(attempt: Callable[..., diel.Context]) -> None:
    losses = {
        precision: train(attempt(), settings(epochs=40, precision=precision))[0].best.validation_loss
        for precision in ("fp32", "bf16", "fp16")
    }
    assert len(set(losses.values())) == 3
    assert max(losses.values()) < 1.2 * losses["fp32"] < 0.1  # the targets' variance, without learning


def test_a_loss_without_bounds_ends_the_training(attempt: Callable[..., diel.Context]) -> None:
    context = attempt()
    with pytest.raises(ValueError, match="use a smaller learning_rate"):
        pytorch.train(
            torch.nn.Linear(1, 1), ROWS, HELD, square, settings(optimizer="sgd", learning_rate=1e9), context
        )


def test_r2_is_1_for_a_perfect_prediction_and_0_for_the_mean() -> None:
    observed = torch.tensor([1.0, 2.0, 3.0])
    assert pytorch.r2(observed, observed) == 1
    assert pytorch.r2(observed, torch.full((3,), 2.0)) == 0
    assert pytorch.r2(observed, torch.tensor([1.0, 2.0, 4.0])) == 0.5
    assert pytorch.r2(torch.ones(3), torch.ones(3)) == 1
    assert pytorch.r2(torch.ones(3), torch.zeros(3)) == 0


def test_a_split_holds_each_row_once() -> None:
    train_rows, held = pytorch.split(10, 0.3, seed=1)
    assert len(held) == 3
    assert sorted([*train_rows.tolist(), *held.tolist()]) == list(range(10))
    assert [len(part) for part in pytorch.split(2, 0.99, seed=0)] == [1, 1]
    assert [len(part) for part in pytorch.split(50, 0.001, seed=0)] == [49, 1]


def test_classes_are_whole_numbers_from_0_or_refused() -> None:
    assert pytorch.classes(np.array([2.0, 0.0]), 2).tolist() == [2, 0]
    for wrong in ([0.5, 1], [-1, 0], [0, 1, 2], [[0, 1]], ["a", "b"]):
        with pytest.raises(ValueError, match="a class for each of 2 rows, whole numbers from 0 on; found"):
            pytorch.classes(np.array(wrong), 2)


SETTINGS = Settings(learning_rate=0.1, epochs=2, batch=4, device=torch.device("cpu"))


def progress() -> Progress:
    return Progress.start(torch.nn.Linear(1, 1), SETTINGS)


def step(made: Progress) -> None:
    made.optimizer.zero_grad()
    made.network(torch.ones(1, 1)).sum().backward()
    made.optimizer.step()
    made.position += 1


def context(folder: Path, attempt: int, **more: object) -> diel.Context:
    task = folder / f"0.{attempt}"
    task.mkdir()
    return diel.Context(task_dir=task, attempt=attempt, checkpoint=True, **more)  # type: ignore[arg-type]


def test_a_state_that_is_read_back_goes_on_with_the_same_steps(tmp_path: Path) -> None:
    first = progress()
    step(first)
    first.loss_sum += 2.5
    first.history.append((1.0, 2.0, 3.0, 4.0))
    first.best = Best(1, 2.0, 3.0, {"weight": torch.zeros(1)})
    torch.save(first.state(), tmp_path / "state.pt")
    dice = torch.rand(3)
    second = progress()
    second.restore(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(torch.rand(3), dice)
    assert (second.position, second.loss_sum.item(), second.history) == (1, 2.5, first.history)
    assert second.best is not None
    assert (second.best.epoch, second.best.validation_loss) == (1, 3.0)
    for made in (first, second):
        step(made)
    assert torch.equal(first.network.state_dict()["weight"], second.network.state_dict()["weight"])


def test_an_interrupted_training_is_saved_and_its_next_attempt_goes_on(tmp_path: Path) -> None:
    made = progress()
    saver = Saver(made, context(tmp_path, 1, interrupt_at=0.0))
    made.epoch, made.position = 3, 40
    with pytest.raises(diel.Interrupted, match="3 epochs and 40 rows are done"):
        saver.look()
    later = progress()
    Saver(later, context(tmp_path, 2))
    assert (later.epoch, later.position, later.seconds) == (3, 40, made.seconds)


def test_what_takes_long_to_save_is_saved_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, saves = [100.0], []

    def save(*_: object) -> None:
        saves.append(clock[0])
        clock[0] += 2.0

    monkeypatch.setattr(saving, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(torch, "save", save)
    saver = Saver(progress(), context(tmp_path, 1))
    for now in (100.5, 101.0, 110.0, 142.9, 143.0, 150.0):
        clock[0] = now
        saver.look()
    assert saves == [101.0, 143.0]  # the first one ended at 103, and took 2 seconds
    assert saver.progress.seconds == 43.0


def test_a_task_without_checkpoints_is_never_saved_or_stopped(tmp_path: Path) -> None:
    made = Saver(progress(), diel.Context(task_dir=tmp_path, interrupt_at=0.0))
    made.look()
    assert list(tmp_path.iterdir()) == []


def test_a_cosine_falls_from_the_learning_rate_to_nearly_nothing() -> None:
    rates = [settings(schedule="cosine").rate(epoch) for epoch in range(12)]
    assert rates[0] == 0.01
    assert rates == sorted(rates, reverse=True)
    assert rates[6] == pytest.approx(0.005)
    assert 0 < rates[-1] < 0.0002
    assert settings().rate(11) == 0.01


@pytest.mark.parametrize(("said", "threads"), [("2", 2), ("3,1", 3), ("", 1), ("many", 1), ("0", 1)])
def test_it_computes_on_the_tasks_own_cores(said: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    with pytorch.reproducible():
        assert torch.get_num_threads() == threads


def test_a_gpu_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pytorch.find_device("auto") == CPU
    with pytest.raises(
        ValueError, match=r"device: cuda, .* sees no GPU here; .*gpus_per_rank: 1.*device: auto"
    ):
        pytorch.find_device("cuda")
