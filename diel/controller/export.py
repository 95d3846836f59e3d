"""Copies what is exported out of the run, in threads beside the controller, once it is committed.

A controller that takes the run over copies what is not there with its size, time and content; of files that
were recorded as copied, the content is not read. A failure loses nothing: the result stays in the run.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from diel.artifacts.artifact import digest_of, entries_below
from diel.check.export import own_files
from diel.check.workflow import Checked
from diel.controller.stages import Stages
from diel.copying import copy_file
from diel.errors import DielError
from diel.expressions import ExpressionError
from diel.files import reason
from diel.paths import RunPaths
from diel.project.deliveries import Deliveries, are_equal, look
from diel.spec import Workflow
from diel.tasks.export import Delivery, Exports
from diel.tasks.ledger import Ledger
from diel.tasks.stage_run import StageRun

if TYPE_CHECKING:
    from diel.journal.records import ExportedRecord
    from diel.results import RunReader

THREADS = 4


class LeftUncopied(Exception):
    """The controller lets go of the run."""


@dataclass
class _Output:
    copied: int = 0
    kept: list[str] = field(default_factory=list)
    """Why something else stays where it would be."""
    failed: list[str] = field(default_factory=list)
    """Why something could not be copied."""
    folder: str = ""
    told: tuple[int, int, int] = (0, 0, 0)


class Exporter:
    """What a run exports. All methods are for the controller's thread."""

    def __init__(self, checked: Checked, source: Path, paths: RunPaths) -> None:
        """`source` is the workflow file."""
        self._exports = _exports(checked.workflow, source, paths)
        self._own = own_files(checked.document, source, checked.modules)
        self._copier = _Copier(self._own, paths)
        self._known: set[str] = set()
        """The stages whose tasks' own files are known."""
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="diel-export")
        self._open: dict[Future[tuple[int, str]], str] = {}
        self._undecided: list[tuple[StageRun, int]] = []
        """Tasks that have ended, of trials that may still be pruned."""
        self._outputs: defaultdict[str, _Output] = defaultdict(_Output)

    @property
    def busy(self) -> bool:
        """Whether anything is still to be copied."""
        self._settle()
        return bool(self._open)

    @property
    def failures(self) -> list[str]:
        """Why something could not be copied."""
        return [message for one in self._outputs.values() for message in one.failed]

    def begin(self, stages: Stages, ledger: Ledger) -> None:
        """Exports what earlier controllers of the run left, and each result from now on."""
        self._stages, self._ledger = stages, ledger
        runs = [stages.runs[name] for name in self._exports]
        ended = [(run, index) for run in runs if run.known for index in range(run.size)]
        left = [one for run, index in ended for one in self._of(run, index)]
        told = {name: one["files"] for name, one in ledger.history.exports.items()}
        counts = Counter(name for name, _, _ in left)
        for name, owner, one in left:
            self._take(name, owner, one, known=told.get(name, 0) >= counts[name])
        stages.watch_ends(self._note_end)

    def _learn(self) -> None:
        """Note which files tasks read that are their own: what is exported must not replace them."""
        for name, stage in self._stages.runs.items():
            if stage.known and name not in self._known:
                self._known.add(name)
                for index in range(stage.size):
                    with suppress(DielError, ExpressionError, KeyError):  # it reads what is not there yet
                        own = self._stages.recipes[name].own_files(index)
                        self._own |= {path: f"files.{label} of {name}/{index}" for label, path in own.items()}

    def _note_end(self, stage: StageRun, index: int) -> None:
        for name, owner, one in self._of(stage, index):
            self._take(name, owner, one)

    def _of(self, stage: StageRun, index: int) -> Iterator[tuple[str, str, Delivery]]:
        """What a task exports: the name of each output, whose it is, and what is copied where."""
        exports = self._exports.get(stage.name)
        if exports is None or not stage.history.is_good(index):
            return
        self._learn()
        if stage.is_undecided(index):
            self._undecided.append((stage, index))
            return
        try:
            scope = self._stages.recipes[stage.name].scope(index)
            for one in exports.of(scope, self._ledger.results.record(stage.name, index)):
                yield f"{stage.name}.{one.output}", f"'{one.output}' of {stage.name}/{index}", one
        except (DielError, KeyError) as error:
            self._outputs[stage.name].failed.append(f"{stage.task(index)}: {error}")

    def _take(self, name: str, owner: str, one: Delivery, *, known: bool = False) -> None:
        folder, output = os.path.dirname(one.target), self._outputs[name]
        output.folder = os.path.commonpath([output.folder or folder, folder])
        self._open[self._pool.submit(self._copier.deliver, one, owner, known=known)] = name

    def _settle(self) -> None:
        undecided, self._undecided = self._undecided, []
        for stage, index in undecided:
            self._note_end(stage, index)
        for future in [future for future in self._open if future.done()]:
            output = self._outputs[self._open.pop(future)]
            error = LeftUncopied() if future.cancelled() else future.exception()
            if error is None:
                copied, kept = future.result()
                output.kept += [kept] if kept else []
                output.copied += bool(copied or not kept)
            elif not isinstance(error, LeftUncopied):
                output.failed.append(str(error))

    def tell(self) -> None:
        """Record what was copied and what was not, where that has changed."""
        self._settle()
        for name, one in sorted(self._outputs.items()):
            now = one.copied, len(one.failed), len(one.kept)
            if one.told != now:
                one.told = now
                record: ExportedRecord = {
                    "event": "exported",
                    "output": name,
                    "files": now[0],
                    "folder": one.folder,
                    "failed": now[1],
                    "message": min(one.failed, default=""),
                }
                if one.kept:
                    record["kept"], record["why"] = now[2], min(one.kept)
                self._ledger.append(record)

    def close(self) -> None:
        """End the copies that are under way, and record how far they came."""
        self._copier.stopped = True
        self._undecided.clear()
        self._pool.shutdown(cancel_futures=True)
        self.tell()
        for owner, lists in self._copier.lists.items():
            stage = self._stages.runs[owner.rpartition(" of ")[2]]
            if all(stage.history.is_good(index) or index in stage.omitted for index in range(stage.size)):
                for one in lists:
                    self._copier.clear(one)


class _Copier:
    """Copies files to where users look, in one step each. It runs in threads."""

    def __init__(self, own: Mapping[str, str], paths: RunPaths) -> None:
        self._own = own
        self._runs = os.path.realpath(paths.root.parent)
        self._root = str(paths.root)
        self._owners: dict[str, str] = {}
        self._deliveries = Deliveries(paths)
        self.lists: dict[str, set[str]] = {}
        """Where lists of files went, by output."""
        self.stopped = False

    def deliver(self, one: Delivery, owner: str, *, known: bool) -> tuple[int, str]:
        """Copy files; return how many, and why something else stays where one would be. `known` says that the
        run has recorded these as copied. Raise DielError, which names the target, where it cannot be written.
        """
        copied, clash, kept = 0, "", ""
        tree = one.target if os.path.isdir(one.source) else ""
        if one.place:
            whose, workflow = owner.rpartition("/")[0], os.path.basename(self._root).rpartition("-")[0]
            tree = f"{one.place}: {whose} of {workflow}"
            self.lists.setdefault(whose, set()).add(tree)
        for source, target, link in _files(one):
            first = self._owners.setdefault(target, owner)
            if first != owner:
                clash = f"{target} is written by {' and '.join(sorted((first, owner)))}"
                continue
            try:
                self._refuse(source, target)
                if link is not None:
                    _put_link(link, target)
                elif os.path.isdir(source):
                    os.makedirs(target, exist_ok=True)
                else:
                    done, why = self._copy(source, target, tree, known=known)
                    copied, kept = copied + done, kept or why
            except (OSError, ValueError) as error:
                message = f"{target} cannot be written: {reason(error)}; the result is {source}"
                raise DielError(message) from error
        if clash:
            raise DielError(clash)
        if tree == one.target and not kept:
            self.clear(tree, one.source)
        return copied, kept

    def clear(self, tree: str, source: str = "") -> None:
        """Remove what earlier deliveries left in a directory: it is the last one's alone."""
        with self._deliveries.turn(), suppress(OSError):
            for path in self._deliveries.left_over(tree, source):
                os.unlink(path)
                with suppress(OSError):  # others are in there
                    os.removedirs(os.path.dirname(path))

    def _refuse(self, source: str, target: str) -> None:
        real = os.path.realpath(target)
        if os.path.isdir(target) and not os.path.isdir(source):
            hint = f"write {os.path.basename(target)}/ to put the file into it"
            raise DielError(f"{target} is a directory; {hint}")
        for place in (real, *map(str, Path(real).parents)):
            if place in self._own:
                raise DielError(f"{target} is not written: it is {self._own[place]}")
            if place == self._runs:
                raise DielError(f"{target} is not written: it is in {self._runs}, where the runs are")

    def _copy(self, source: str, target: str, tree: str, *, known: bool) -> tuple[bool, str]:
        """Return whether it copied a file, and why something else stays there."""
        now, there = look(source), look(target)
        if now == there and (known or are_equal(source, target)):
            if not known:
                with self._deliveries.turn():
                    self._deliveries.note(source, target, tree)
            return False, ""
        if kept := self._deliveries.keeps(source, target, tree):
            return False, kept
        os.makedirs(os.path.dirname(target), exist_ok=True)
        part = f"{os.path.dirname(target)}/.{digest_of([self._root, target])[:16]}.part"
        copy_file(source, part, self._check, shared=False)
        status = os.stat(source)
        os.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))
        with self._deliveries.turn():
            if kept := self._deliveries.keeps(source, target, tree):  # while it was copied
                os.unlink(part)
                return False, kept
            aside = self._deliveries.put_aside(target, source)
            self._deliveries.note(source, target, tree)
            os.rename(part, target)
        return True, aside

    def _check(self) -> None:
        if self.stopped:
            raise LeftUncopied


def _put_link(link: str, target: str) -> None:
    """Make a link, in place of another one; raises FileExistsError where something else is."""
    if os.path.islink(target):
        if os.readlink(target) == link:
            return
        os.unlink(target)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.symlink(link, target)


def _exports(workflow: Workflow, source: Path, paths: RunPaths) -> dict[str, Exports]:
    stages = workflow.stages.items()
    return {name: Exports(stage, source.parent, paths.root) for name, stage in stages if stage.exports}


def export_again(run: RunReader) -> int:
    """Copy what a run that is over exported and is no longer there; return how many. Raise DielError."""

    source, paths = Path(run.run_file.source), run.paths
    view, document = run, run.document
    modules = {name: module for name in run.workflow.stages if (module := view.module(name)) is not None}
    copier = _Copier(own_files(document, source, modules), paths)
    copied = 0
    for name, exports in _exports(run.workflow, source, paths).items():
        for record in run.results(name):
            scope = view.recipe(name).scope(record["index"])
            for one in exports.of(scope, record):
                copied += copier.deliver(one, f"'{one.output}' of {name}/{record['index']}", known=True)[0]
    return copied


def _files(one: Delivery) -> Iterator[tuple[str, str, str | None]]:
    """What is copied where, and where it leads if it is a link that stays one; a directory that has none."""
    entries = entries_below(one.source) if os.path.isdir(one.source) else ()
    for name, link in entries:
        yield f"{one.source}/{name}", f"{one.target}/{name}", link
    if not entries:
        yield one.source, one.target, None
