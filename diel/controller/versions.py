"""What a run would read otherwise than when it began, and the next version of it (`resume --update`).

One run is one version. The next takes things as they are, and computes again what rests on changed ones.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from diel.base.carried import CARRIED, carried
from diel.base.errors import DielError, UsageError, counted
from diel.base.files import put, read_file
from diel.base.paths import RunPaths
from diel.base.states import RunState
from diel.controller.invalidation import Again
from diel.controller.start import change_run_file, plan_again, watch_shared
from diel.observe.results import RunReader
from diel.observe.results.rows import decided_axes, tasks_reading
from diel.planning.plan import Plan
from diel.site.find import read_kept_site
from diel.store.artifacts.identity import FileChanged, hold, look_at
from diel.store.project.run_file import MAX_WORKFLOW, read_kept_workflow
from diel.tasks.artifact_gc import ended_well
from diel.tasks.link import Link
from diel.tasks.stage_run import StageRun
from diel.tasks.texts import OF_AXIS, Watch, file_of
from diel.workflow.graph import StageGraph
from diel.workflow.load.document import LARGEST, kept_templates, renderings
from diel.workflow.models.forms.axis import Points
from diel.workflow.models.forms.rows import FileForm
from diel.workflow.modules.beside import files_of
from diel.workflow.modules.catalogue import ModuleNotFound, find
from diel.workflow.modules.sources import SourceVersion, digest_of_bytes, keep, newest

SHOWN = 5
Tasks = Mapping[str, frozenset[int] | None]
"""Tasks by stage; None for all."""


class ChangedSource(NamedTuple):
    """Something that is another than when a run began."""

    text: str
    readers: Tasks


def differences(paths: RunPaths, view: RunReader) -> list[ChangedSource]:
    """Return what is another than when a run began; nothing for a run that keeps no sources."""
    sources = newest(paths.sources)
    if sources is None:
        return []
    plan = plan_again(paths)
    sources_and_files = [*_modules(plan, sources), *_files(plan, paths, view), *_templates(plan, view)]
    return [*sources_and_files, *_environments(plan, paths)]


def changed_texts(run: RunReader) -> Iterator[str]:
    """Yield the files of a run's workflow, includes and `--params` that have another text by now."""
    own = run.run_file
    texts = {own.source: read_kept_workflow(run.paths), **own.included, **own.params_texts}
    for file, before in texts.items():
        with suppress(OSError, UnicodeDecodeError):  # of what is gone there is no other text
            if read_file(Path(file), MAX_WORKFLOW).decode("utf-8") != before:
                yield os.path.relpath(file)


def news(run: RunReader) -> Iterator[str]:
    """Yield lines for the user on what is another than when a run began and changes no result."""
    name, before, now = run.paths.run_id, run.run_file.carried, carried(os.environ)
    if texts := [*changed_texts(run)]:
        new = f"`{run.run_file.command_line}` takes what is there now, and reuses results"
        yield f"{', '.join(texts)} changed since {name} began; the old text is used: {new}"
    names = [key for key in CARRIED if before and before.get(key) != now.get(key)]
    if names and run.history.state is not RunState.SUCCEEDED:
        rest = "tasks that are left find programs as in this shell, and what is recorded holds"
        yield f"{' and '.join(names)} changed since {name} began: {rest}"
    if newest(run.paths.sources) is None and run.history.epoch:
        yield f"{name} kept no sources: what is left runs with all files as they are now"


def _modules(plan: Plan, sources: SourceVersion) -> Iterator[ChangedSource]:
    readers: dict[str, dict[str, None]] = {}
    digests = dict(sources.files)
    if sources.python_path not in (None, now := carried(os.environ).get("PYTHONPATH", "")):
        text = f"PYTHONPATH is '{now}', and was '{sources.python_path}'"
        yield ChangedSource(text, dict.fromkeys(sources.modules))
    for stage, facts in sources.modules.items():
        for path, _ in facts["files"]:
            readers.setdefault(path, {})[stage] = None
        if facts["digest"] and not facts["files"]:
            with suppress(ModuleNotFound, OSError):
                if find(facts["reference"], ()).digest == facts["digest"]:
                    continue
            yield ChangedSource(f"module {facts['reference']}: its package is another", {stage: None})
        if facts["files"] and stage in plan.modules:
            for path in map(str, files_of(plan.modules[stage].importer, sources.kept)):
                if path not in dict(plan.modules[stage].files):
                    digests.setdefault(path, "")
                    readers.setdefault(path, {})[stage] = None
    for path, data in sources.later():
        digests[path], readers[path] = digest_of_bytes(data), dict.fromkeys(sources.modules)
    for path, digest in digests.items():
        with suppress(OSError):  # of what is gone there is no other version: the run has its own
            if digest_of_bytes(Path(path).read_bytes()) != digest:
                text = f"{path}: {'its content is another' if digest else 'it is new'}"
                own, stages = readers.get(path, {}), plan.workflow.stages.items()
                asking = {name: None for name, stage in stages if not own.keys().isdisjoint(stage.services)}
                yield ChangedSource(text, {**dict.fromkeys(own), **asking})


def _files(plan: Plan, paths: RunPaths, view: RunReader) -> Iterator[ChangedSource]:
    for path, file in Watch(paths, records=False).files.items():
        try:
            hold(file)
        except FileChanged as error:
            readers: dict[str, frozenset[int] | None] = {}
            for name, stage in view.stages.items():
                files = view.recipe(name).sources.files
                shared = {one.written for one in files.shared.values()}
                if path in {*shared, *file_of(plan.modules.get(name)).values()}:
                    readers[name] = None
                elif own := frozenset(_readers(view, stage, path)):
                    readers[name] = own
            if readers or not file.name.startswith(OF_AXIS):
                yield ChangedSource(str(error), readers)


def _readers(view: RunReader, stage: StageRun, path: str) -> Iterator[int]:
    recipe = view.recipe(stage.name)
    for index in range(stage.size):
        with suppress(DielError, LookupError):  # what its path rests on is not known yet
            if path in {file.written for file in recipe.own_files(index).values()}:
                yield index


def _templates(plan: Plan, view: RunReader) -> Iterator[ChangedSource]:
    for key, rendering in renderings(plan.workflow):
        path = view.run_file.folder / rendering.template
        before = rendering.filling.written or rendering.filling.text
        with suppress(OSError):
            now = read_file(path, LARGEST).decode("utf-8", "replace"), os.access(path, os.X_OK)
            if now != (before, rendering.filling.executable):
                yield ChangedSource(f"template {path}: its content is another", {str(key[1]): None})


def _environments(plan: Plan, paths: RunPaths) -> Iterator[ChangedSource]:
    if not plan.uses_environments:
        return
    from diel.controller.environment import changed_environments  # here: most runs have none

    stages = plan.workflow.stages.items()
    for name in changed_environments(plan._replace(site=read_kept_site(paths)), paths):
        readers = {
            reader for reader, stage in stages if stage.chooses_environment or stage.environment == name
        }
        yield ChangedSource(f"environment '{name}': its definition is another", dict.fromkeys(readers))


def changed_axes(view: RunReader, *, gone: bool) -> str:
    """Return which axes' points come from a file that has others by now, or is `gone`, in words."""
    run, messages = view, []
    for label, axis in run.workflow.axes.items():
        if isinstance(axis, FileForm) and (points := run.points(label)) is not None:
            why = "cannot be read" if gone else ""  # an update has no other points to take
            with suppress(UsageError):
                now = axis.points_of(label, run.workflow.hyperparameters, run.run_file.folder)
                same = now.parameters == points.parameters and [*_rows(now)] == [*_rows(points)]
                why = "" if same else "is another by now"
            messages += [f"the points of '{label}' come from {axis.path}, which {why}"] if why else []
    return ", and ".join(messages)


def _rows(points: Points) -> Iterator[str]:
    """Return points as a run keeps them."""
    return (json.dumps(points.values(index)) for index in range(len(points)))


def is_unfinished(view: RunReader, difference: ChangedSource) -> bool:
    """Return whether a task reads what differs that has not ended well."""
    for name, tasks in difference.readers.items():
        stage = view.stages[name]
        indices = range(stage.size) if tasks is None else tasks
        if not stage.known or not all(ended_well(stage, index) for index in indices):
            return True
    return False


def resting_on(view: RunReader, found: list[ChangedSource]) -> Again:
    """Return the tasks whose results or tolerated failures rest on what differs. Raise UsageError."""
    changes: dict[str, set[int]] = {name: set() for name in view.stages}
    for name, readers in (item for difference in found for item in difference.readers.items()):
        changes[name].update(range(view.stages[name].size) if readers is None else readers)
    for name in view.graph.order:
        for link in view.into(name):
            if link.up.known and link.down.known and changes[link.up.name]:
                changes[name].update(_reached(view.graph, link, changes[link.up.name]))
    again: dict[str, dict[int, int]] = {}
    for name, tasks in changes.items():
        history = view.stages[name].history
        ended = [index for index in sorted(tasks) if history.is_good(index) or index in history.tolerated]
        if ended:
            if decided := decided_axes(view, name):
                run = view.run_file
                why = (
                    f"the points of '{decided[0]}' rest on results of '{name}', which would be computed again"
                )
                raise UsageError(f"{run.run} cannot take it: {why}: start anew with `{run.command_line}`")
            again[name] = {index: history.result_attempt(index) for index in ended}
    return again


def _reached(graph: StageGraph, link: Link, changed: set[int]) -> Iterable[int]:
    """Return the tasks that read any of these along an edge; all where it is only known while they run."""
    edge = link.edge
    if edge.chosen or edge.published or edge.stream or edge.service:
        return range(link.down.size)
    return tasks_reading(link, changed) if graph.decides(edge) else ()


def cost_of(view: RunReader, plan: Plan, again: Again) -> str:
    """Return how much computing these tasks again is, in words: `12 finished tasks, 3.2 core-hours`."""
    seconds = 0.0
    for name, tasks in again.items():
        times = {record["index"]: record["seconds"] for record in view.results(name)}
        seconds += plan.stages[name].cores * sum(times.get(index, 0.0) for index in tasks)
    return f"{counted(sum(map(len, again.values())), 'finished task')}, {seconds / 3600:.3g} core-hours"


def listed(changes: list[ChangedSource]) -> str:
    """Return what differs, a line each, with who reads it."""
    more = [f"    and {len(changes) - SHOWN} more"] if len(changes) > SHOWN else []
    lines = [f"    {c.text} (read by {', '.join(sorted(c.readers)) or 'none'})" for c in changes[:SHOWN]]
    return "\n".join([*lines, *more])


def update_sources(paths: RunPaths) -> None:
    """Make what a run reads, as it is now, its next version. Raise UsageError and SpecError before that."""
    plan, before = plan_again(paths, anew=True), newest(paths.sources)
    if plan.uses_environments:
        from diel.controller.environment import mend_environments  # here: most runs have none

        mend_environments(plan, paths, anew=True)
    files = []
    for file in Watch(paths, records=False).files.values():
        with suppress(OSError):  # who reads it says that it is gone
            files.append(look_at(file.name, file.path))
    try:
        version = 1 if before is None else before.version + 1
        put(paths.sources / f"{version}.files.jsonl", "".join(f"{json.dumps(one)}\n" for one in files))
        keep(paths.sources, {name: module.facts() for name, module in plan.modules.items()}, version)
    except OSError as error:
        raise UsageError(f"{paths.run_id}: cannot write there: {error.strerror}") from error
    watch_shared(plan, paths)
    change_run_file(paths, templates=kept_templates(plan.workflow))
