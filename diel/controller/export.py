"""Copies what is exported out of the run, in threads beside the controller, once it is committed.

What was copied is known by its size and time, so a controller that takes the run over looks at all results
and copies what lacks. A failure loses nothing: the result stays in the run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from diel.artifacts.artifact import files_below
from diel.check.export import own_files
from diel.controller.stages import Stages
from diel.copying import copy_file
from diel.errors import DielError
from diel.files import reason
from diel.paths import RunPaths
from diel.results import Recorded
from diel.results.view import RunView
from diel.spec import Workflow
from diel.tasks.export import Delivery, Exports
from diel.tasks.ledger import Ledger
from diel.tasks.stage_run import StageRun

THREADS = 4
_NAME = 40


class LeftUncopied(Exception):
    """The controller lets go of the run."""


class Exporter:
    """What a run exports. All methods are for the controller's thread."""

    def __init__(self, workflow: Workflow, source: Path, paths: RunPaths) -> None:
        """`source` is the workflow file."""
        self._exports = _exports(workflow, source, paths)
        self._copier = _Copier(own_files(workflow, source), paths)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="diel-export")
        self._owners: dict[str, tuple[str, int, str]] = {}
        self._open: dict[Future[int], str] = {}
        self._copied: Counter[str] = Counter()
        self._failed: dict[str, list[str]] = {}
        self._folders: dict[str, str] = {}
        self._told: dict[str, tuple[int, int]] = {}

    @property
    def busy(self) -> bool:
        """Whether anything is still to be copied."""
        self._settle()
        return bool(self._open)

    @property
    def failures(self) -> list[str]:
        """Why something could not be copied."""
        return [message for told in self._failed.values() for message in told]

    def begin(self, stages: Stages, ledger: Ledger) -> None:
        """Exports what earlier controllers of the run left, and each result from now on."""
        self._stages, self._ledger = stages, ledger
        for name in self._exports:
            stage = stages.runs[name]
            for index in range(stage.size if stage.known else 0):
                self._note_end(stage, index)
        stages.watch_ends(self._note_end)

    def _note_end(self, stage: StageRun, index: int) -> None:
        exports = self._exports.get(stage.name)
        if exports is None or not stage.history.is_good(index):
            return
        try:
            scope, record = (
                self._stages.recipes[stage.name].scope(index),
                self._ledger.results.record(stage.name, index),
            )
            for one in exports.of(scope, record):
                self._take(f"{stage.name}.{one.output}", (stage.name, index, one.output), one)
        except (DielError, KeyError) as error:
            self._failed.setdefault(stage.name, []).append(f"{stage.task(index)}: {error}")

    def _take(self, name: str, owner: tuple[str, int, str], one: Delivery) -> None:
        first = self._owners.setdefault(one.target, owner)
        if first != owner:
            others = " and ".join(f"'{output}' of {stage}/{index}" for stage, index, output in (first, owner))
            self._failed.setdefault(name, []).append(f"{one.target} is written by {others}")
            return
        folder = os.path.dirname(one.target)
        self._folders[name] = os.path.commonpath([self._folders.get(name, folder), folder])
        self._open[self._pool.submit(self._copier.deliver, one)] = name

    def _settle(self) -> None:
        for future in [future for future in self._open if future.done()]:
            name = self._open.pop(future)
            error = None if future.cancelled() else future.exception()
            if error is None:
                self._copied[name] += 1
            elif not isinstance(error, LeftUncopied):
                self._failed.setdefault(name, []).append(str(error))

    def tell(self) -> None:
        """Records what was copied and what was not, where that has changed."""
        self._settle()
        for name in sorted({*self._copied, *self._failed}):
            failed = self._failed.get(name, [])
            now = self._copied[name], len(failed)
            if self._told.get(name) != now:
                self._told[name] = now
                self._ledger.append(
                    {
                        "event": "exported",
                        "output": name,
                        "files": now[0],
                        "folder": self._folders.get(name, ""),
                        "failed": now[1],
                        "message": min(failed, default=""),
                    }
                )

    def close(self) -> None:
        """Ends the copies that are under way, and records how far they came."""
        self._copier.stopped = True
        self._pool.shutdown(cancel_futures=True)
        self.tell()


class _Copier:
    """Copies files to where users look, in one step each. It runs in threads."""

    def __init__(self, own: Mapping[str, str], paths: RunPaths) -> None:
        self._own = own
        self._runs = os.path.realpath(paths.root.parent)
        self._part = f".{paths.run_id}.part"
        self.stopped = False

    def deliver(self, one: Delivery) -> int:
        """Returns how many files it copied. Raises DielError, which names the target, where it cannot be
        written."""
        copied = 0
        for source, target in _files(one):
            try:
                self._refuse(target)
                copied += self._copy(source, target)
            except (OSError, ValueError) as error:
                message = f"{target} cannot be written: {reason(error)}; the result is {source}"
                raise DielError(message) from error
        return copied

    def _refuse(self, target: str) -> None:
        real = os.path.realpath(target)
        if os.path.isdir(target):
            hint = f"write {os.path.basename(target)}/ to put the file into it"
            raise DielError(f"{target} is a directory; {hint}")
        for place in (real, *map(str, Path(real).parents)):
            if place in self._own:
                raise DielError(f"{target} is not written: it is {self._own[place]}")
            if place == self._runs:
                raise DielError(f"{target} is not written: it is in {self._runs}, where the runs are")

    def _copy(self, source: str, target: str) -> bool:
        now = os.stat(source)
        try:
            there = os.stat(target)
            if (there.st_size, there.st_mtime_ns) == (now.st_size, now.st_mtime_ns):
                return False
        except FileNotFoundError:
            os.makedirs(os.path.dirname(target), exist_ok=True)
        folder, name = os.path.split(target)
        part = f"{folder}/.{name[:_NAME]}{self._part}"
        copy_file(source, part, self._check, shared=False)
        os.utime(part, ns=(now.st_atime_ns, now.st_mtime_ns))
        os.rename(part, target)
        return True

    def _check(self) -> None:
        if self.stopped:
            raise LeftUncopied


def _exports(workflow: Workflow, source: Path, paths: RunPaths) -> dict[str, Exports]:
    stages = workflow.stages.items()
    return {name: Exports(stage, source.parent, paths.root) for name, stage in stages if stage.exports}


def export_again(run: Recorded) -> int:
    """Copies what a run that is over exported and what is no longer there; returns the number of files.

    Raises DielError where that cannot be done.
    """
    source, paths = Path(run.run_file.source), run.paths
    view, copier = RunView(run), _Copier(own_files(run.workflow, source), paths)
    copied = 0
    for name, exports in _exports(run.workflow, source, paths).items():
        for record in run.results(name):
            scope = view.recipe(name).scope(record["index"])
            copied += sum(copier.deliver(one) for one in exports.of(scope, record))
    return copied


def _files(one: Delivery) -> Iterator[tuple[str, str]]:
    if not os.path.isdir(one.source):
        yield one.source, one.target
        return
    for name in files_below(one.source):
        yield f"{one.source}/{name}", f"{one.target}/{name}"
