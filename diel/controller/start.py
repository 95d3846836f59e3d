"""Starting and taking over a run: what happens between a checked workflow and its controller."""

import contextlib
import os
import platform
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, Unpack

from diel.backends.blocks.block import EngineLost
from diel.backends.blocks.script import block_jobs, try_out
from diel.base.carried import carried
from diel.base.errors import DielError, ModuleError, UsageError
from diel.base.files import put
from diel.base.paths import RunPaths, user_file
from diel.base.version import __version__
from diel.controller.controller import Controller, ResultChanged
from diel.controller.search.searcher import refuse_unsearchable
from diel.planning.check import check
from diel.planning.check.imports import refuse_missing
from diel.planning.plan import Plan, make_plan
from diel.site.find import find_program, find_site, read_kept_site
from diel.site.scheduler import Job, JobState, scheduler_named
from diel.site.scheduler.allocation import END
from diel.site.site import Site, missing
from diel.store.journal.snapshot import read_run
from diel.store.project.lease import take
from diel.store.project.requests import set_aside
from diel.store.project.run_file import RunFile, RunOptions, read_kept_workflow, read_run_file
from diel.store.project.runs import create_run, make_newest, mend_run
from diel.store.registry import kept_values, user_name
from diel.tasks.texts import OF_AXIS, Files, Watch, file_of
from diel.worker.attempt.reaper import kill_marked
from diel.worker.environments.prepared import prepared_text
from diel.workflow.load.document import kept_templates
from diel.workflow.models.data import TemplateContent
from diel.workflow.models.forms.axis import read_kept
from diel.workflow.models.forms.rows import TEXTS, FileForm
from diel.workflow.models.variables import apply_shell, shell_of
from diel.workflow.modules.sources import keep, newest

TIMES = 5
"""How often a process takes over its own run."""
Outcome = TypeVar("Outcome")


def start(plan: Plan, runs: Path, **manner: Unpack[RunOptions]) -> Controller:
    """Make a new run and its controller. Raise UsageError, before anything is made, if it cannot run."""
    jobs = block_jobs(plan, runs) if plan.site.scheduled else ()
    paths = create(plan, runs, jobs, **manner)
    try:
        lease, segment = take(paths)
    except OSError as error:
        discard(paths, fresh=False)
        raise UsageError(f"cannot make a run in {runs}: {error.strerror}") from error
    return Controller(with_sources(plan, paths), read_run_file(paths), paths, lease, segment)


def with_sources(plan: Plan, paths: RunPaths) -> Plan:
    """Return a plan whose modules are executed from what its run keeps of them; kept now if it is not yet."""
    sources = newest(paths.sources)
    if sources is None:
        facts = {name: module.facts() for name, module in plan.modules.items()}
        sources = keep(paths.sources, facts, 1)
    modules = {name: module._replace(store=sources.place) for name, module in plan.modules.items()}
    return plan._replace(checked=plan.checked._replace(modules=modules))


def watch_shared(plan: Plan, paths: RunPaths) -> None:
    """Record what the files of all tasks of a stage are. Raise ModuleError for one that cannot be read."""
    watch, folder = Watch(paths, records=True), plan.checked.document.path.parent.absolute()
    for label, axis in plan.workflow.axes.items():
        if isinstance(axis, FileForm) and axis.path.endswith(TEXTS):  # data may be too large to read whole
            watch.look(f"{OF_AXIS}{label}", os.path.realpath(folder / axis.path))
    for name, stage in plan.workflow.stages.items():
        Files(stage, folder, watch).watched_by_all()
        for file_name, path in file_of(plan.modules.get(name)).items():
            watch.look(file_name, path)


def discard(paths: RunPaths, *, fresh: bool) -> None:
    """Remove a new run that failed to start; the directory of the runs too, if it was made for it."""
    shutil.rmtree(paths.root, ignore_errors=True)
    if fresh:
        with contextlib.suppress(OSError):  # somebody else's run came there meanwhile
            paths.root.parent.rmdir()


def create(
    plan: Plan, runs: Path, jobs: Iterable[tuple[str, Job]] = (), **manner: Unpack[RunOptions]
) -> RunPaths:
    """Make a new run that no controller has taken yet; `jobs` are what it will ask a scheduler for, with
    their pools. Raise UsageError, before anything is made, where it cannot run or be queued."""
    refuse_unrunnable(plan)
    if plan.site.notify or user_file().exists():
        from diel.site.notify import addresses  # here: few runs tell anybody

        addresses(plan.site, user_file())
    begin_at = manner.get("begin_at")
    if begin_at is not None and begin_at not in plan.workflow.stages:
        raise UsageError(f"no stage '{begin_at}'; stages: {', '.join(plan.workflow.stages)}")
    if plan.site.scheduled:
        try_out(plan, jobs)
    document, hyperparameters = plan.checked.document, plan.checked.hyperparameters
    shell = shell_of(plan.workflow, os.environ)
    apply_shell(plan.workflow, shell)
    has_templates = plan.workflow.any_stage(lambda stage: stage.rendered)
    templates = kept_templates(plan.workflow) if has_templates else {}
    environments = ""
    if plan.uses_environments:
        from diel.controller.environment import make_environments  # here: most runs have none

        environments = prepared_text(make_environments(plan, runs))
    begins = None
    if any(axis.word == "search" for axis in plan.workflow.axes.values()):
        from diel.controller.warm_start import begin_searches  # here: most runs have no search

        begins = begin_searches(document, runs, anew=not manner.get("use_cache", True))
    paths = create_run(runs, plan.workflow.name)
    try:
        if begins is not None:
            begins.keep(paths)
        put(paths.workflow, document.text)
        put(paths.site, plan.site.model_dump_json(indent=1))
        with_sources(plan, paths)
        watch_shared(plan, paths)
        run_file = RunFile(
            run=paths.run_id,
            id=os.urandom(16).hex(),
            root=str(paths.root),
            workflow=plan.workflow.name,
            source=str(document.path.absolute()),
            cwd=str(Path.cwd()),
            site=plan.site.name,
            notify_file=plan.site.file if plan.site.notify else "",
            user_file=str(user_file().absolute()) if user_file().exists() else "",
            hyperparameters=hyperparameters.plain(),
            origins={name: value.origin for name, value in hyperparameters.values.items()},
            sources={name: value.source for name, value in hyperparameters.values.items()},
            settings=hyperparameters.words,
            params_files=tuple(str(file.absolute()) for file in hyperparameters.files),
            params_texts={str(file.absolute()): text for file, text in hyperparameters.texts.items()},
            included=dict(document.included),
            templates=templates,
            seeds={} if begins is None else begins.seeds,
            shell=shell,
            carried=carried(os.environ),
            **manner,
            created=time.time(),
            host=socket.gethostname(),
            user=user_name(),
            diel=__version__,
            python=platform.python_version(),
        )
        if environments:
            put(paths.environments, environments)
        put(paths.run_file, run_file.model_dump_json(indent=1))
        make_newest(paths)
    except OSError as error:
        discard(paths, fresh=False)
        raise UsageError(f"cannot make a run in {runs}: {error.strerror}") from error
    except (UsageError, ModuleError) as error:
        discard(paths, fresh=False)
        raise UsageError(str(error)) from error
    return paths


def take_over(paths: RunPaths) -> Controller:
    """Make this process the controller of a run: its first, or the next one after another is gone. What that
    left running on this host is ended, but for blocks. Raise UsageError where another controller drives."""
    plan = plan_again(paths)
    refuse_unrunnable(plan)
    if plan.uses_environments:
        from diel.controller.environment import mend_environments  # here: most runs have none

        mend_environments(plan, paths)
    mend_run(paths)
    lease, segment = take(paths)
    if lease.epoch > 1:
        set_aside(paths)
    kill_marked("DIEL_RUN_DIR", str(paths.root), without="DIEL_BLOCK")
    refused: Mapping[tuple[str, int], str] = {}
    if lease.epoch > 1:
        from diel.controller.invalidation import make_anew  # here: a new run has nothing to make again

        refused = make_anew(paths, segment)
    controller = Controller(with_sources(plan, paths), read_run_file(paths), paths, lease, segment)
    controller.refused = refused
    return controller


def drive_on(controller: Controller, drive: Callable[[Controller], Outcome]) -> Outcome:
    """Return what `drive` returns for a controller, or for the next ones in this process: if Parsl's
    interchange was lost, or to compute what rests on remade results. Raise DielError after some losses."""
    lost = 0
    while True:
        try:
            return drive(controller)
        except EngineLost as error:
            if lost == TIMES:
                hint = f"`diel resume {controller.paths.run_id}` takes them over"
                raise DielError(f"{error}, {hint}") from error
            lost += 1
            controller = take_over(controller.paths)
            controller.note(f"{error}; it is started again")
        except ResultChanged:
            refused = controller.refused
            controller = take_over(controller.paths)
            controller.refused = {**refused, **controller.refused}
            controller.note("results that were made again are others than before: what read them is too")


def plan_again(paths: RunPaths, site: Site | None = None, *, anew: bool = False) -> Plan:
    """Return the plan of an earlier run from what it keeps, or `anew` from what is there. Raise SpecError."""
    run_file = read_run_file(paths)
    checked = check(
        Path(run_file.source),
        folder=run_file.folder,
        cwd=Path(run_file.cwd),
        text=read_kept_workflow(paths),
        included=run_file.included,
        recorded=kept_values(run_file),
        templates=None
        if anew
        else {name: TemplateContent(*filling) for name, filling in run_file.templates.items()},
        sources=None if anew else newest(paths.sources),
        kept=lambda label: read_kept(paths.axis(label)),
    )
    run_file.apply(checked.workflow)
    return make_plan(checked, site or read_kept_site(paths))


def find_site_again(paths: RunPaths, name: str) -> Site:
    """Return a site as its file is now. Raise UsageError, also where the old scheduler has jobs."""
    site = find_site(name, read_run_file(paths).folder)
    written_site = read_kept_site(paths)
    for block in read_run(paths).history.blocks.values():
        if JobState(block["state"]).ended:
            continue
        if site.scheduler != written_site.scheduler or block["pool"] not in site.pools:
            lost = (
                f"the scheduler {written_site.scheduler}"
                if site.scheduler != written_site.scheduler
                else "this pool"
            )
            raise UsageError(
                f"{paths.run_id} may still have job {block['job']} in pool '{block['pool']}', and site "
                f"'{site.name}' is without {lost}: `diel cancel {paths.run_id}` ends it, resume it then"
            )
    return site


def keep_site(paths: RunPaths, site: Site) -> None:
    """Make a site the one on which a run continues. Raise UsageError if it cannot be written."""
    try:
        put(paths.site, site.model_dump_json(indent=1))
    except OSError as error:
        raise UsageError(f"{paths.run_id}: cannot write there: {error.strerror}") from error
    change_run_file(paths, site=site.name, notify_file=site.file if site.notify else "")


def change_run_file(paths: RunPaths, **changes: Any) -> None:
    """Change what a run asks for, if it asks for something else. Raise UsageError if it cannot be written."""
    before = read_run_file(paths)
    run_file = before.model_copy(update=changes)
    if run_file == before:
        return
    try:
        modified = paths.run_file.stat().st_mtime_ns
        put(paths.run_file, run_file.model_dump_json(indent=1))
        os.utime(paths.run_file, ns=(modified, modified))  # its place among the runs must not change
    except OSError as error:
        raise UsageError(f"{paths.run_id}: cannot write there: {error.strerror}") from error


def refuse_unreachable(site: Site) -> None:
    """Raise UsageError for a site without commands of its scheduler here, unless within an allocation."""
    absent = () if os.environ.get(END) or not site.scheduled else scheduler_named(site.scheduler).lacking()
    if absent:
        programs = " and ".join(filter(None, [", ".join(absent[:-1]), absent[-1]]))
        raise UsageError(
            f"site '{site.name}' needs {programs}, and {'it is' if len(absent) == 1 else 'they are'} not "
            "here: submit on a login node of the cluster, or put the scheduler's commands on PATH"
        )


def refuse_unrunnable(plan: Plan) -> None:
    """Raise UsageError for searches without Optuna, ranks without a launcher, jobs without a scheduler."""
    if plan.workflow.adaptive:
        refuse_unsearchable(plan.workflow)
    if lacking := missing(plan.site):
        raise UsageError("\n".join(lacking))
    refuse_unreachable(plan.site)
    if plan.checked.modules and not plan.site.scheduled:
        refuse_missing(plan.checked)
    needed = ((stage, program) for stage in plan.stages.values() for program in stage.launchers)
    for stage, program in () if plan.site.scheduled else needed:
        if find_program(program) is None:
            raise UsageError(
                f"stage '{stage.name}' needs '{program}' for its ranks, and it is not here: "
                f"{sys.executable} -m pip install 'diel[mpi]', or load your site's MPI module"
            )
