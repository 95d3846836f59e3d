"""The campaign in full: `python -m tests.campaign [--kills 300] [--seed SEED] [--only WORKFLOW]… [--blocks]`.

`--seed 7/3` repeats run 3 of the campaign with seed 7. Exit code 1 where anything was wrong.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from tests.campaign.campaign import campaign
from tests.campaign.flows import FLOWS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--each", type=int, default=10, help="kills in one run")
    parser.add_argument("--seed", default=str(secrets.randbelow(10_000)))
    parser.add_argument("--only", action="append", choices=list(FLOWS), default=[])
    parser.add_argument("--blocks", action="store_true", help="in blocks of a virtual Slurm (as root)")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="diel-campaign-"))
    print(f"seed {given.seed}, in {folder}", flush=True)
    tally = campaign(folder, given.seed, given.kills, given.each, given.only, blocks=given.blocks, talk=True)
    print(tally.table())
    if not tally.wrong and given.folder is None:
        folder.rmdir()
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
