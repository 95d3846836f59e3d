"""Starting and taking over a run: what stands between a checked workflow and its controller."""

from __future__ import annotations

import getpass
import os
import platform
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from diel import __version__
from diel.check import check
from diel.controller.controller import Controller
from diel.errors import DielError, SpecError, UsageError
from diel.lease import take
from diel.paths import RunPaths
from diel.plan import Plan, make_plan
from diel.registry import Hyperparameters
from diel.requests import set_aside
from diel.run_file import RunFile, read_run_file
from diel.runs import create_run
from diel.site import Site, find_program, find_site, missing
from diel.worker.reaper import kill_marked


def prepare(
    path: Path,
    settings: Sequence[str] = (),
    params_files: Sequence[Path] = (),
    site: str | None = None,
) -> Plan:
    """Checks a workflow file and plans it for a site. Raises SpecError and UsageError."""
    checked = check(path, settings, params_files)
    return make_plan(checked, find_site(site, path.parent))


def start(
    plan: Plan,
    runs: Path,
    settings: Sequence[str] = (),
    params_files: Sequence[Path] = (),
    *,
    use_cache: bool = True,
    begin_at: str | None = None,
) -> Controller:
    """Makes a new run and its controller. Raises UsageError where it cannot run, before it is made."""
    paths = create(plan, runs, settings, params_files, use_cache=use_cache, begin_at=begin_at)
    try:
        lease, segment = take(paths)
    except OSError as error:
        shutil.rmtree(paths.root, ignore_errors=True)
        raise UsageError(f"cannot make a run in {runs}: {error.strerror}") from error
    return Controller(plan, read_run_file(paths), paths, lease, segment)


def create(
    plan: Plan,
    runs: Path,
    settings: Sequence[str] = (),
    params_files: Sequence[Path] = (),
    *,
    use_cache: bool = True,
    begin_at: str | None = None,
) -> RunPaths:
    """Makes a new run that no controller has taken yet.

    Raises UsageError where it cannot run, before anything is made.
    """
    refuse_unrunnable(plan)
    if begin_at is not None and begin_at not in plan.workflow.stages:
        raise UsageError(f"no stage '{begin_at}'; stages: {', '.join(plan.workflow.stages)}")
    paths = create_run(runs, plan.workflow.name)
    try:
        document = plan.checked.document
        paths.workflow.write_text(document.text, encoding="utf-8")
        paths.site.write_text(plan.site.model_dump_json(indent=1), encoding="utf-8")
        run_file = RunFile(
            run=paths.run_id,
            workflow=plan.workflow.name,
            source=str(document.path.absolute()),
            cwd=str(Path.cwd()),
            site=plan.site.name,
            hyperparameters=plan.checked.hyperparameters.plain(),
            origins=_origins(plan.checked.hyperparameters),
            settings=tuple(settings),
            params_files=tuple(str(file.absolute()) for file in params_files),
            use_cache=use_cache,
            begin_at=begin_at,
            created=time.time(),
            host=socket.gethostname(),
            user=_user(),
            diel=__version__,
            python=platform.python_version(),
        )
        part = paths.run_file.with_suffix(".part")
        part.write_text(run_file.model_dump_json(indent=1), encoding="utf-8")
        part.replace(paths.run_file)
    except OSError as error:
        shutil.rmtree(paths.root, ignore_errors=True)
        raise UsageError(f"cannot make a run in {runs}: {error.strerror}") from error
    return paths


def _user() -> str:
    """The user's name; the number where a container knows no name for it.

    Parsl asks for the name as well, so that the number is left where it will look.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return os.environ.setdefault("LOGNAME", str(os.getuid()))


def _origins(hyperparameters: Hyperparameters) -> dict[str, str]:
    return {name: value.origin for name, value in hyperparameters.values.items()}


def take_over(paths: RunPaths) -> Controller:
    """Makes this process the controller of a run: its first, or the next one after another is gone.

    What the last controller left running on this host is ended first, but for what runs in blocks:
    that is adopted. Raises UsageError where another controller drives the run.
    """
    plan = plan_again(paths)
    refuse_unrunnable(plan)
    _user()
    lease, segment = take(paths)
    if lease.epoch > 1:
        set_aside(paths)
    kill_marked("DIEL_RUN_DIR", str(paths.root), without="DIEL_BLOCK")
    return Controller(plan, read_run_file(paths), paths, lease, segment)


def plan_again(paths: RunPaths) -> Plan:
    """The plan of a run that was made before, from what was kept of its workflow and site."""
    run_file = read_run_file(paths)
    checked = check(
        Path(run_file.source),
        run_file.settings,
        [Path(file) for file in run_file.params_files],
        folder=run_file.folder,
        cwd=Path(run_file.cwd),
        text=_text(paths),
    )
    return make_plan(checked, read_kept_site(paths))


def read_kept_site(paths: RunPaths) -> Site:
    """The site as it was when the run was made. Raises UsageError where it cannot be read."""
    try:
        return Site.model_validate_json(paths.site.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{paths.run_id}: its site cannot be read: {error}") from error


def _text(paths: RunPaths) -> str:
    try:
        return paths.workflow.read_text(encoding="utf-8")
    except OSError as error:
        raise DielError(f"{paths.run_id}: its workflow cannot be read: {error.strerror}") from error


def refuse_unrunnable(plan: Plan) -> None:
    """What validates but cannot run: adaptive axes, and ranks without a launcher.

    Raises SpecError and UsageError.
    """
    problems = [
        plan.checked.document.problem(
            ("axes", label, kind),
            f"a {kind} axis can be written and checked, but this version does not run it yet",
            "run the workflow without it for now",
        )
        for label, axis in plan.workflow.axes.items()
        for kind in ("search", "loop")
        if getattr(axis, kind) is not None
        and any(label in stage.over for stage in plan.workflow.stages.values())
    ]
    if problems:
        raise SpecError(problems)
    if lacking := missing(plan.site):
        raise UsageError("\n".join(lacking))
    for stage in plan.stages.values():
        if not plan.site.scheduled and stage.launcher and find_program(stage.launcher[0]) is None:
            raise UsageError(
                f"stage '{stage.name}' needs '{stage.launcher[0]}' for its ranks, and it is not here: "
                f"{sys.executable} -m pip install 'diel[mpi]', or load your site's MPI module"
            )
