"""A campaign: one disturbed run after the other until there were enough kills, and what came of them."""

from __future__ import annotations

import contextlib
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.blocks import BlockPlace
from tests.campaign.descent import Descent
from tests.campaign.disturbed import Disturbed, Kill, Place, undisturbed
from tests.campaign.evidence import Outcome
from tests.campaign.flows import FLOWS, Flow
from tests.campaign.roles import KINDS
from tests.cluster.cluster import Cluster, new_folder, own

MOMENTS = ("start", "resume", "later")


@dataclass
class Tally:
    """The kills of a campaign, and what was wrong in which of its runs."""

    seed: str
    kills: list[tuple[str, Kill]] = field(default_factory=list)
    """Each with the workflow that it hit."""
    runs: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def table(self) -> str:
        """Kills by kind and moment, and by workflow."""
        cells = Counter((kill.kind, kill.moment) for _, kill in self.kills)
        flows = Counter(flow for flow, _ in self.kills)
        lines = [f"{'killed':<14}{'start':>8}{'resume':>8}{'later':>8}{'all':>8}"]
        for kind in KINDS:
            numbers = [cells[kind, moment] for moment in MOMENTS]
            if sum(numbers):
                lines.append(f"{kind:<14}" + "".join(f"{number:>8}" for number in (*numbers, sum(numbers))))
        sums = [sum(cells[kind, moment] for kind in KINDS) for moment in MOMENTS]
        lines.append(f"{'all':<14}" + "".join(f"{number:>8}" for number in (*sums, sum(sums))))
        spread = ", ".join(f"{name} {flows[name]}" for name in FLOWS if flows[name])
        lines.append(
            f"seed {self.seed}; {self.runs} runs in {self.seconds:.0f} s; kills by workflow: {spread}"
        )
        lines += [f"WRONG {words}" for words in self.wrong] or ["nothing lost, nothing twice, nothing left"]
        return "\n".join(lines)


def campaign(
    folder: Path,
    seed: str,
    kills: int,
    each: int = 10,
    only: Sequence[str] = (),
    *,
    blocks: bool = False,
    talk: bool = False,
) -> Tally:
    """Kills so many times, `each` in a run. Runs that nothing is wrong with leave nothing in the folder.

    A seed of the form `7/3` repeats the third run of seed 7 alone.
    """
    begun = time.monotonic()
    tally = Tally(seed)
    first, _, alone = seed.partition("/")
    with Descent() as descent, _places(blocks, descent) as place:
        expected: dict[str, Outcome] = {}
        for number, name in _line(int(alone or 0), only):
            if len(tally.kills) >= kills:
                break
            if name not in expected:
                expected[name] = _alone(place(folder / f"{name}-alone", FLOWS[name], each), descent)
            here = place(folder / f"{number}", FLOWS[name], each)
            disturbed = Disturbed(here, descent, random.Random(f"{first}/{number}"))
            disturbed.follow(min(each, kills - len(tally.kills)), expected[name])
            if disturbed.is_void:  # by something else on this machine
                shutil.rmtree(here.folder)
                continue
            tally.runs += 1
            tally.kills += [(name, kill) for kill in disturbed.kills]
            tally.wrong += [f"seed {first}/{number} ({name}): {words}" for words in disturbed.wrong]
            if talk:
                _tell(number, name, disturbed, time.monotonic() - begun)
            if not disturbed.wrong:
                shutil.rmtree(here.folder)
            if alone:
                break
    tally.seconds = time.monotonic() - begun
    return tally


@contextlib.contextmanager
def _places(blocks: bool, descent: Descent) -> Iterator[Callable[[Path, Flow, int], Place]]:
    """Where runs are made: on this machine, or beside a cluster that is up meanwhile."""
    if not blocks:
        yield Place
        return
    cluster = Cluster(new_folder())
    own(cluster.folder)
    try:
        cluster.up()
        descent.pass_over()
        yield lambda folder, flow, kills: BlockPlace(folder, flow, kills, cluster)
    finally:
        cluster.down()


def _line(number: int, only: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The runs: their number, and which workflow each has."""
    names = list(FLOWS)
    while True:
        if (name := names[number % len(names)]) in (only or names):
            yield number, name
        number += 1


def _alone(place: Place, descent: Descent) -> Outcome:
    found = undisturbed(place, descent)
    shutil.rmtree(place.folder)
    return found


def _tell(number: int, name: str, disturbed: Disturbed, seconds: float) -> None:
    kills = " ".join(f"{kill.kind}@{kill.seconds:.1f}" for kill in disturbed.kills)
    print(f"{seconds:6.0f} s  run {number} {name}: {kills}", flush=True)
    for words in disturbed.wrong:
        print(f"  WRONG {words}", flush=True)
