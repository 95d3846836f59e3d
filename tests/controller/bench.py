"""The stages of a workflow as a controller holds them, without workers: a test says what tasks gave."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from diel.base.files import put
from diel.controller.environment import make_environments
from diel.controller.stages import Stages
from diel.controller.warm_start import begin_searches
from diel.planning.check import check
from diel.planning.plan import make_plan
from diel.site.find import find_site
from diel.store.journal.segment import SegmentWriter
from diel.store.project.run_file import RunFile
from diel.store.project.runs import create_run
from diel.tasks.ledger import Ledger
from diel.worker.attempt.bundle import Request
from diel.worker.environments.prepared import prepared_text
from tests.record import as_record


class Bench:
    """One run of a workflow, all its stages open that can be."""

    def __init__(self, folder: Path, text: str, *settings: str) -> None:
        text = "diel: 1\n" + ("" if text.startswith("name: ") else "name: w\n") + textwrap.dedent(text)
        checked = check(folder / "w.yaml", settings, text=text)
        self.plan = make_plan(checked, find_site(None, folder))
        self.paths = create_run(folder / "runs", "w")
        begin_searches(checked.document, folder / "runs", anew=True).keep(self.paths)
        told: dict[str, Any] = dict.fromkeys(
            ("run", "workflow", "cwd", "site", "host", "user", "diel", "python"), ""
        )
        self.run_file = RunFile(
            **told,
            source=str(folder / "w.yaml"),
            hyperparameters=checked.hyperparameters.plain(),
            origins={},
            created=0.0,
        )
        if made := make_environments(self.plan, self.paths.root.parent):
            put(self.paths.environments, prepared_text(made))
        segment = SegmentWriter(self.paths.controller_segment(1))
        self.ledger = Ledger(self.paths, segment)
        self.stages = Stages(self.plan, self.run_file, self.ledger)
        self.stages.open()

    def killed_before(self, event: str) -> None:
        """Its controller was killed before it wrote its last `event`; another one has taken the run over."""
        mine = self.paths.controller_segment(1)
        lines = mine.read_text(encoding="utf-8").splitlines(keepends=True)
        last = max(number for number, line in enumerate(lines) if json.loads(line)["event"] == event)
        mine.write_text("".join(lines[:last]), encoding="utf-8")
        self.resumed()

    def resumed(self, **more: Any) -> None:
        """Another controller has taken the run over."""
        self.ledger = Ledger(self.paths, SegmentWriter(self.paths.controller_segment(2)))
        self.ledger.read_all()
        self.ledger.append(as_record({"event": "controller", "epoch": 2, "host": "here", "pid": 1, **more}))
        self.stages = Stages(self.plan, self.run_file, self.ledger)
        self.stages.open()

    def cancelled(self, stage: str, index: int = 0) -> None:
        """A task was stopped because a user said so."""
        run = self.stages.runs[stage]
        self.ledger.cancel(run, [[index, index]])
        self.stages.note_end(run, index)

    def done(self, stage: str, index: int = 0, /, **values: Any) -> None:
        """A task gave these values; a Path among them is an artifact with the digest of its text."""
        files = {name: value for name, value in values.items() if isinstance(value, Path)}
        record = {
            "event": "done",
            "stage": stage,
            "index": index,
            "attempt": 1,
            "seconds": 0.0,
            "key": "0" * 32,
            "values": {name: value for name, value in values.items() if name not in files},
            "artifacts": {
                name: {"path": str(path), "size": 1, "digest": path.name} for name, path in files.items()
            },
        }
        self.commit(stage, index, record)

    def commit(self, stage: str, index: int, record: dict[str, Any]) -> None:
        """A worker has written this of a task."""
        run, segment = self.stages.runs[stage], self.ledger.segment
        offset = segment.append(as_record(record))
        self.ledger.commit(run, index, segment.name, offset, as_record(record))
        self.stages.note_end(run, index)

    def fail(self, stage: str, index: int = 0) -> None:
        run = self.stages.runs[stage]
        self.ledger.fail(run, index, {"class": "app", "message": "broken"})
        self.stages.note_end(run, index)

    def resolve(self, stage: str, index: int = 0) -> Request:
        """A task with all its values."""
        return self.stages.recipes[stage].resolve(index)

    def keys(self, stage: str) -> list[str]:
        return [self.resolve(stage, index).key for index in range(self.stages.runs[stage].size)]
