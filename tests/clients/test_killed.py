"""Programs in C among the tasks that are killed, beside those in Python."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import Compile
from tests.streams.served import Served
from tests.streams.test_killed import Task, campaign


def in_c(program: Path) -> type[Task]:
    """Tasks of `killed.c`: what they learn stands in their surroundings, as a worker would put it there."""

    class InC(Task):
        def started(self, *all_words: str) -> subprocess.Popen[bytes]:
            what, run, *words = all_words
            end: dict[str, str | int] = {"attempt": self.attempt}
            match what:
                case "make":
                    channel, member, *given = words
                    end |= {"role": "put", "channel": channel, "member": member}
                    given = [member, *given]
                case "use":
                    channel, group, member, *given = words
                    end |= {"role": "get", "channel": channel, "group": group, "member": member}
                    given = [member, *given]
                case _:
                    member, *given = words
            about = {"DIEL_RUN_DIR": run, "DIEL_TASK_ID": member, "DIEL_ATTEMPT": str(self.attempt)}
            return subprocess.Popen(
                [program, what, *given], env={**about, "DIEL_STREAMS": json.dumps({"x": end})}
            )

    return InC


def test_kills_of_all_kinds_lose_and_double_nothing_of_programs_in_c(
    served: Served, compiled: Compile, tmp_path: Path
) -> None:
    campaign(served, tmp_path, kills=6, count=3000, seed=2, first=in_c(compiled("killed.c")))


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(5))
def test_twenty_kills_lose_and_double_nothing_of_programs_in_c(
    served: Served, compiled: Compile, tmp_path: Path, seed: int
) -> None:
    campaign(served, tmp_path, kills=20, count=20_000, seed=seed, first=in_c(compiled("killed.c")))
