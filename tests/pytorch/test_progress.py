"""Where a training is: kept whole, saved when it is due, and gone on from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import diel
from diel import pytorch as saving
from diel.pytorch import Best, Progress, Saver, Settings

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
