"""Copies what is exported out of the run, in threads beside the controller, once it is committed.

A controller that takes the run over copies what is not there with its size, time and content; of files that
were recorded as copied, the content is not read. A failure loses nothing: the result stays in the run.
"""

import fcntl
import filecmp
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from diel.base.copying import copy_file
from diel.base.errors import DielError, ModuleError
from diel.base.files import put, reason, resolved
from diel.base.paths import RunPaths
from diel.controller.stages import Stages
from diel.planning.check.export import own_files
from diel.planning.check.workflow import CheckedWorkflow
from diel.store.artifacts import files_of
from diel.store.artifacts.artifact import digest_of, entries_below
from diel.store.project.runs import all_runs
from diel.tasks.ledger import Ledger
from diel.tasks.results import artifact_path, name_of
from diel.tasks.stage_run import StageRun
from diel.workflow.expressions import ExpressionError, parse
from diel.workflow.models import Stage, Workflow

if TYPE_CHECKING:
    from diel.observe.results import RunReader
    from diel.store.journal.records import ExportedRecord, Made

THREADS = 4


class Delivery(NamedTuple):
    """A file or directory of a run, and where it is copied to; both absolute."""

    output: str
    source: str
    target: str
    place: str = ""
    """The directory into which it goes as one of a list of files."""


class Exports:
    """The outputs of one stage that are exported."""

    def __init__(self, stage: Stage, folder: Path, root: Path) -> None:
        """Parse the paths. `folder` is the workflow's, `root` that of the run."""
        self._folder = folder
        self._root = root
        self._templates = {
            name: (parse(output.export), _bare(output.glob))
            for name, output in stage.outputs.items()
            if output.export is not None
        }

    def of(self, scope: Mapping[str, Any], record: "Made") -> Iterator[Delivery]:
        """Yield the deliveries of a task. Raise ExpressionError, ModuleError, and a scope's errors."""
        for name, (template, prefix) in self._templates.items():
            entry = record.get("artifacts", {}).get(name)
            if entry is None:
                what = "is a value" if name in record.get("values", {}) else "was not made"
                raise ModuleError(f"'{name}' {what}: only files are exported")
            text = template.text_value(scope)
            place = os.path.join(self._folder, text)
            for file in files_of(entry):
                source = os.fspath(artifact_path(record, file["path"], self._root))
                own = name_of(file["path"])
                inner = own.removeprefix(prefix) if prefix else os.path.basename(own)
                whole = os.path.join(place, inner) if "files" in entry or text.endswith("/") else place
                listed = os.path.normpath(place) if "files" in entry else ""
                yield Delivery(name, source, os.path.normpath(whole), listed)


def _bare(glob: str | None) -> str:
    """Return the directories before the first pattern of a glob: they are not repeated where its files go."""
    parts = (glob or "").split("/")[:-1]
    plain = next((place for place, part in enumerate(parts) if set(part) & set("*?[$")), len(parts))
    return "".join(f"{part}/" for part in parts[:plain])


class ExportsStopped(Exception):
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

    def __init__(self, checked: CheckedWorkflow, source: Path, paths: RunPaths) -> None:
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
        return [message for output in self._outputs.values() for message in output.failed]

    def begin(self, stages: Stages, ledger: Ledger) -> None:
        """Export what earlier controllers of the run left, and each result from now on."""
        self._stages, self._ledger = stages, ledger
        runs = [stages.runs[name] for name in self._exports]
        ended = [(run, index) for run in runs if run.known for index in range(run.size)]
        due = [entry for run, index in ended for entry in self._of(run, index)]
        counted_files = {name: entry["files"] for name, entry in ledger.history.exports.items()}
        counts = Counter(name for name, _, _ in due)
        for name, owner, entry in due:
            self._take(name, owner, entry, is_known=counted_files.get(name, 0) >= counts[name])
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
        for name, owner, delivery in self._of(stage, index):
            self._take(name, owner, delivery)

    def _of(self, stage: StageRun, index: int) -> Iterator[tuple[str, str, Delivery]]:
        """Yield what a task exports: the name of each output, whose it is, and what is copied where."""
        exports = self._exports.get(stage.name)
        if exports is None or not stage.history.is_good(index):
            return
        self._learn()
        if stage.is_undecided(index):
            self._undecided.append((stage, index))
            return
        try:
            scope = self._stages.recipes[stage.name].scope(index)
            for delivery in exports.of(scope, self._ledger.results.record(stage.name, index)):
                output = delivery.output
                yield f"{stage.name}.{output}", f"'{output}' of {stage.name}/{index}", delivery
        except (DielError, KeyError) as error:
            self._outputs[stage.name].failed.append(f"{stage.task(index)}: {error}")

    def _take(self, name: str, owner: str, delivery: Delivery, *, is_known: bool = False) -> None:
        folder, output = os.path.dirname(delivery.target), self._outputs[name]
        output.folder = os.path.commonpath([output.folder or folder, folder])
        self._open[self._pool.submit(self._copier.deliver, delivery, owner, is_known=is_known)] = name

    def _settle(self) -> None:
        undecided, self._undecided = self._undecided, []
        for stage, index in undecided:
            self._note_end(stage, index)
        for future in [future for future in self._open if future.done()]:
            output = self._outputs[self._open.pop(future)]
            error = ExportsStopped() if future.cancelled() else future.exception()
            if error is None:
                copied, untouched = future.result()
                output.kept += [untouched] if untouched else []
                output.copied += bool(copied or not untouched)
            elif not isinstance(error, ExportsStopped):
                output.failed.append(str(error))

    def tell(self) -> None:
        """Record what was copied and what was not, where that has changed."""
        self._settle()
        for name, output in sorted(self._outputs.items()):
            now = output.copied, len(output.failed), len(output.kept)
            if output.told != now:
                output.told = now
                record: ExportedRecord = {
                    "event": "exported",
                    "output": name,
                    "files": now[0],
                    "folder": output.folder,
                    "failed": now[1],
                    "message": min(output.failed, default=""),
                }
                if output.kept:
                    record["kept"], record["why"] = now[2], min(output.kept)
                self._ledger.append(record)

    def close(self) -> None:
        """End the copies that are under way, and record how far they came."""
        self._copier.stopped = True
        self._undecided.clear()
        self._pool.shutdown(cancel_futures=True)
        self._settle()
        for owner, lists in self._copier.lists.items():
            _, label, name = owner.replace("' of ", "'").split("'")
            stage = self._stages.runs[name]
            if all(stage.history.is_good(index) or index in stage.omitted for index in range(stage.size)):
                output = self._outputs[f"{name}.{label}"]
                output.kept += [said for listed in lists for said in self._copier.clear(listed)]
        self.tell()


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

    def deliver(self, delivery: Delivery, owner: str, *, is_known: bool) -> tuple[int, str]:
        """Copy files; return how many, and why something else stays where one would be. `is_known` says that
        the run has recorded these as copied. Raise DielError, with the target, where it cannot be written.
        """
        copied, clash, untouched = 0, "", ""
        tree = delivery.target if os.path.isdir(delivery.source) else ""
        if delivery.place:
            whose, workflow = owner.rpartition("/")[0], os.path.basename(self._root).rpartition("-")[0]
            tree = f"{delivery.place}: {whose} of {workflow}"
            self.lists.setdefault(whose, set()).add(tree)
        for source, target, link in _files(delivery):
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
                    done, why = self._copy(source, target, tree, is_known=is_known)
                    copied, untouched = copied + done, untouched or why
            except (OSError, ValueError) as error:
                message = f"{target} cannot be written: {reason(error)}; the result is {source}"
                raise DielError(message) from error
        if clash:
            raise DielError(clash)
        if tree == delivery.target and not untouched:
            untouched = min(self.clear(tree, delivery.source), default="")
        return copied, untouched

    def clear(self, tree: str, source: str = "") -> list[str]:
        """Remove what earlier deliveries left in a directory: it is the last one's alone. Return what to tell
        of that, and of files that other outputs or workflows have put there."""
        said = []
        with self._deliveries.turn(), suppress(OSError):
            for path in self._deliveries.left_over(tree, source):
                os.unlink(path)
                said.append(f"{path} is removed: an earlier run had put it there")
                with suppress(OSError):  # others are in there
                    os.removedirs(os.path.dirname(path))
        others = self._deliveries.beside(tree)
        return said + [f"{path} is beside them: {owner} has put it there" for path, owner in others.items()]

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

    def _copy(self, source: str, target: str, tree: str, *, is_known: bool) -> tuple[bool, str]:
        """Return whether it copied a file, and why something else stays there."""
        now, there = look(source), look(target)
        if now == there and (is_known or are_equal(source, target)):
            if not is_known:
                with self._deliveries.turn():
                    self._deliveries.note(source, target, tree)
            return False, ""
        if untouched := self._deliveries.keeps(source, target, tree):
            return False, untouched
        os.makedirs(os.path.dirname(target), exist_ok=True)
        part = f"{os.path.dirname(target)}/.{digest_of([self._root, target])[:16]}.part"
        copy_file(source, part, self._check, shared=False)
        status = os.stat(source)
        os.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))
        with self._deliveries.turn():
            if untouched := self._deliveries.keeps(source, target, tree):  # while it was copied
                os.unlink(part)
                return False, untouched
            aside = self._deliveries.put_aside(target, source)
            self._deliveries.note(source, target, tree)
            os.rename(part, target)
        return True, aside

    def _check(self) -> None:
        if self.stopped:
            raise ExportsStopped


def _put_link(link: str, target: str) -> None:
    """Make a link, in place of another one; raise FileExistsError where something else is."""
    if os.path.islink(target):
        if os.readlink(target) == link:
            return
        os.unlink(target)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.symlink(link, target)


def _exports(workflow: Workflow, source: Path, paths: RunPaths) -> dict[str, Exports]:
    stages = workflow.stages.items()
    return {name: Exports(stage, source.parent, paths.root) for name, stage in stages if stage.exports}


def export_again(run: "RunReader") -> int:
    """Copy what a run that is over exported and is no longer there; return how many. Raise DielError."""
    source, copied = Path(run.run_file.source), 0
    modules = {name: module for name in run.workflow.stages if (module := run.module(name)) is not None}
    copier = _Copier(own_files(run.document, source, modules), run.paths)
    for name, exports in _exports(run.workflow, source, run.paths).items():
        for record in run.results(name):
            for delivery in exports.of(run.recipe(name).scope(record["index"]), record):
                owner = f"'{delivery.output}' of {name}/{record['index']}"
                copied += copier.deliver(delivery, owner, is_known=True)[0]
    return copied


def _files(delivery: Delivery) -> Iterator[tuple[str, str, str | None]]:
    """Yield each source, its target by no links, and where it leads if it is a link that stays one."""
    entries = entries_below(delivery.source) if os.path.isdir(delivery.source) else ()
    for name, link in entries:
        folder, own = os.path.split(f"{delivery.target}/{name}")
        target = f"{resolved(folder)}/{own}"
        yield f"{delivery.source}/{name}", target if link else resolved(target), link
    if not entries:
        yield delivery.source, resolved(delivery.target), None


Look = tuple[int, int]
"""Size and time of the last change, in nanoseconds."""


class DeliveredFile(NamedTuple):
    """A file that a run has put in place, or is about to."""

    target: str
    tree: str
    """The directory that it is part of, if that is exported as a whole."""
    source: str
    look: Look
    """Of the source, which its copy has too."""
    before: Look | None
    """Of what was there before; None for nothing."""


class Deliveries:
    """What one run has put in place for people, and later ones have: each file is written down before. So a
    run delivers a file once. What somebody edited since, or a newer run has delivered, stays; what no run has
    made is put aside; a directory is that of one run, without what an earlier one had there."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._mine = {delivered.target: delivered for delivered in _read(paths.exports)}
        self._earlier: dict[str, list[DeliveredFile]] = {}
        self._others: dict[Path, tuple[int, list[DeliveredFile]]] = {}

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Let no other run deliver meanwhile, where the file system knows locks."""
        with open(self._paths.root.parent / ".exports.lock", "w", encoding="ascii") as file:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def keeps(self, source: str, target: str, tree: str) -> str:
        """Return why what is at a place stays there; an empty text where a file is to be put there."""
        there = look(target)
        for run in self._all(newer=True) if there or tree else ():
            if any(d.target == target or (tree and d.tree == tree) for d in self._of(run.exports)):
                return f"{target} is as {run.run_id} delivered it, which is newer; this run has {source}"
        if there is None or not self._before(target) or self._is_made(source, target):
            return ""
        mine = self._mine.get(target)
        if mine is not None and (mine.before == there or mine.source != source):  # never put there; made anew
            return ""
        return f"{target} was changed since; remove it, and `diel resume {self._paths.run_id}` puts it back"

    def put_aside(self, target: str, source: str) -> str:
        """Rename what is at a place if no run has made it; return what to tell of that, or an empty text."""
        if look(target) is None or self._is_made(source, target):
            return ""
        names = (f"{target}~{number or ''}" for number in count())
        aside = next(name for name in names if not os.path.lexists(name))
        os.rename(target, aside)
        return f"{target} was not as a run has put it there: it is {os.path.basename(aside)} now"

    def _before(self, target: str) -> list[DeliveredFile]:
        """Return what was put at a place so far: by earlier runs, and by this one."""
        mine, there = [self._mine[target]] if target in self._mine else [], look(target)
        if all(d.look != there for d in (*self._earlier.get(target, ()), *mine)):
            self._earlier = {}  # an earlier run may still be going
            for delivered in self._older():
                self._earlier.setdefault(delivered.target, []).append(delivered)
        return [*self._earlier.get(target, ()), *mine]

    def _older(self) -> Iterator[DeliveredFile]:
        """Yield what earlier runs have delivered, those that were removed first."""
        for file in (removed_exports(self._paths), *(run.exports for run in self._all(newer=False))):
            yield from self._of(file)

    def _is_made(self, source: str, target: str) -> bool:
        """Return whether a file is as a run put it there, or has the content of what is to be put there."""
        there, before = look(target), self._before(target)
        if any(delivered.look == there for delivered in before):
            return True
        return any(are_equal(path, target) for path in {source, *(delivered.source for delivered in before)})

    def note(self, source: str, target: str, tree: str) -> None:
        """Write down that a file is put in place now."""
        now = look(source)
        assert now is not None
        delivered = DeliveredFile(target, tree, source, now, look(target))
        with open(self._paths.exports, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(json.dumps(delivered) + "\n")
        self._mine[target] = delivered

    def left_over(self, tree: str, source: str) -> list[str]:
        """Return what earlier deliveries left in a directory, which is now `source`, if that is one."""
        stale = [d for d in self._older() if self._mine.get(d.target, d) is d]
        stale += [d for d in self._mine.values() if source and not d.source.startswith(f"{source}/")]
        return [d.target for d in stale if d.tree == tree and look(d.target) == d.look]

    def beside(self, tree: str) -> dict[str, str]:
        """Return what other outputs and workflows left in the directory of a list, and whose it is."""
        place, trees = tree.rpartition(": ")[0], {tree, *(d.tree for d in self._mine.values())}
        there = [d for d in self._older() if d.tree.startswith(f"{place}: ") and d.tree not in trees]
        return {
            d.target: d.tree.removeprefix(f"{place}: ")
            for d in there
            if place and d.target not in self._mine and look(d.target) == d.look
        }

    def _all(self, *, newer: bool) -> list[RunPaths]:
        runs = all_runs(self._paths.root.parent)
        place = [run.root.name for run in runs].index(self._paths.root.name)
        return runs[place + 1 :] if newer else runs[:place]

    def _of(self, file: Path) -> list[DeliveredFile]:
        size = (look(file) or (0, 0))[0]
        memo = self._others.get(file)
        if memo is None or memo[0] != size:
            memo = self._others[file] = size, _read(file)
        return memo[1]


def removed_exports(run: RunPaths) -> Path:
    """Return the file of what runs delivered that were removed since."""
    return run.root.parent / ".exports.jsonl"


def outlive(run: RunPaths) -> None:
    """Keep what a run that is to be removed has delivered: to later runs it is diel's own."""
    file = removed_exports(run)
    if not run.exports.exists():
        return
    with Deliveries(run).turn():
        every = (d for d in (*_read(file), *_read(run.exports)) if os.path.exists(d.target))
        there = {d.target: d for d in every if look(d.target) == d.look}
        put(file, "".join(json.dumps(delivered) + "\n" for delivered in there.values()))


def look(path: str | Path) -> Look | None:
    """Return size and time of a file; None where there is none. Raise OSError."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns


def are_equal(path: str, other: str) -> bool:
    """Return whether two files have one content; not if one is gone."""
    with suppress(OSError):
        return filecmp.cmp(path, other, shallow=False)
    return False


def _read(file: Path) -> list[DeliveredFile]:
    deliveries = []
    with suppress(FileNotFoundError), open(file, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            with suppress(ValueError, TypeError):  # the last one may be cut
                target, tree, source, now, before = json.loads(line)
                before = None if before is None else tuple(before)
                deliveries.append(DeliveredFile(target, tree, source, tuple(now), before))
    return deliveries
