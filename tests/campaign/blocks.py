"""The same in blocks of a real Slurm, whose daemons are below this process and are none of the run's."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.campaign.disturbed import Place
from tests.campaign.flows import Flow
from tests.cluster.campaign import QUICK
from tests.cluster.cluster import Cluster


class BlockPlace(Place):
    """A project that is run in blocks of one node with four cores."""

    site = "mine"
    blocks = True

    def __init__(self, folder: Path, flow: Flow, kills: int, cluster: Cluster) -> None:
        self.cluster = cluster
        super().__init__(folder, flow, kills)
        self.known = (*self.known, str(cluster.folder))
        self.kinds = (*flow.kinds, "interchange", "node")
        site = yaml.safe_load(cluster.site().read_text(encoding="utf-8"))
        site.update({"name": "mine", **QUICK})
        site["pools"] = {"small": {**site["pools"]["small"], "blocks": 2}}
        (folder / "schedulers" / "mine.yaml").write_text(yaml.safe_dump(site), encoding="utf-8")

    def base(self) -> dict[str, str]:
        return self.cluster.environment

    def jobs(self) -> list[str]:
        return [f"{job.name} {job.state}" for job in self.cluster.squeue()]
