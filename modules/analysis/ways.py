"""Ways to train one network, beside each other: time, loss, bytes, efficiency, and a model's prediction."""

from __future__ import annotations

import sys
from typing import Any, TypedDict

import diel


class Ways(TypedDict):
    """A row for each way, the serial one first."""

    rows: list[dict[str, Any]]
    difference: float
    """The largest relative difference of a synchronous way's loss from the serial one."""


@diel.module(kind="analysis")
def ways(
    way: list[str],
    ranks: list[int],
    step_ms: list[float],
    loss: list[float],
    sent_mib: list[float],
    messages: list[float],
    message_s: list[list[float]],
    bubble: list[float],
    server: dict[str, float] | None = None,
    server_ranks: int = 2,
    batch: int = 1,
    steps: int = 1,
) -> Ways:
    """Compare ways of training with the first of them, which is serial, and print a table.

    way, ranks, step_ms, loss, sent_mib: names, MPI ranks, milliseconds of a step, last losses, MiB in a step
    messages: collectives in a step that nothing hides
    message_s: seconds that each of them takes, as `training.allreduce:predict` says, a list with one number
    bubble: share of its time that a rank waits in a pipeline: (p − 1) / (m + p − 1) with m microbatches
        (arXiv:1811.06965)
    server, server_ranks: the asynchronous training of `training.parameter_server`, and its ranks
    batch: samples in a step of the others
    steps: gradients of each of the server's ranks

    The prediction for p ranks is T(1) / p / (1 − bubble) + messages × T(message). The server has none: chance
    decides how long it waits.
    """
    predicted: list[float | None] = []
    for place, p in enumerate(ranks):
        share = step_ms[0] / p / (1 - bubble[place])
        predicted.append(share + 1e3 * messages[place] * message_s[place][0] * (p > 1))
    entries = list(zip(way, ranks, step_ms, predicted, loss, sent_mib, strict=True))
    if server is not None:
        server_ms = 1e3 * batch / server["rows_per_second"]
        sent = server["sent_bytes"] / 2**20 / steps
        entries.append(("server", server_ranks, server_ms, None, server["loss"], sent))
    rows: list[dict[str, Any]] = [
        {
            "way": name,
            "ranks": p,
            "step_ms": ms,
            "predicted_ms": prediction,
            "efficiency": step_ms[0] / ms / p,
            "loss": last,
            "sent_mib": sent,
        }
        for name, p, ms, prediction, last, sent in entries
    ]
    lines = ["way       ranks   ms a step  predicted  efficiency       loss  MiB sent"]
    for row in rows:
        prediction = "–" if row["predicted_ms"] is None else f"{row['predicted_ms']:.2f}"
        lines.append(
            f"{row['way']:9} {row['ranks']:5d}  {row['step_ms']:10.2f}  {prediction:>9}"
            f"  {row['efficiency']:9.0%}  {row['loss']:10.5f}  {row['sent_mib']:8.3f}"
        )
    sys.stdout.write("\n".join(lines) + "\n")
    return {"rows": rows, "difference": max(abs(value / loss[0] - 1) for value in loss)}
