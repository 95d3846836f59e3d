"""For Optuna: each search as a study in one SQLite file, its trials as they ran."""

import warnings
from pathlib import Path

import optuna
from optuna.storages import RDBStorage

from diel.base.errors import UsageError, counted
from diel.base.states import TrialState
from diel.controller.search.optuna import begin_study, frozen
from diel.export import hasten
from diel.observe.results import RunReader
from diel.observe.results.attempts import searches, trials_of
from diel.store.journal.axis_history import Course
from diel.tasks.points.adaptive import SearchAxis


def write(run: RunReader, into: Path, target: Path) -> list[str]:
    """Write `optuna.db`. Raise UsageError for a run without a search."""
    axes = searches(run)
    if not any(axis.history.courses for axis in axes.values()):
        why = "none of its searches has begun" if axes else "no axis of its workflow is a search"
        raise UsageError(f"{run.paths.run_id} has no trials for Optuna: {why}")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = RDBStorage(f"sqlite:///{into / 'optuna.db'}")
    hasten(storage.engine)
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which parts Optuna calls experimental is in its manual
        for axis in axes.values():
            courses = axis.history.courses.values()
            studies = {id(course): _study(run, axis, course, storage) for course in courses}
            trials = list(trials_of(run, axis))
            for tried in trials:
                trial = frozen(tried.trial, run.workflow.hyperparameters, tried.steps)
                studies[id(tried.course)].add_trial(trial)
            names = ", ".join(study.study_name for study in studies.values())
            lines.append(f"{axis.label}: {counted(len(trials), 'trial')} in the study {names}")
            open_ = sum(tried.trial.state is TrialState.RUNNING for tried in trials)
            if open_:
                lines.append(f"{axis.label}: {counted(open_, 'trial')} without an end: RUNNING for Optuna")
    storage.remove_session()
    storage.engine.dispose()
    return lines


def _study(run: RunReader, axis: SearchAxis, course: Course, storage: RDBStorage) -> optuna.Study:
    """Return an empty study for one course, named for the run, the search and the point where it ran."""
    at = ",".join(f"{name}={value}" for name, value in course.at.items())
    name = f"{run.paths.run_id}.{axis.label}" + (f"({at})" if at else "")
    study = begin_study(name, axis.axis.objectives, storage)
    about = {"run": run.paths.run_id, "workflow": run.run_file.workflow, "sampler": axis.axis.sampler.name}
    for key, value in {**about, "pruner": axis.axis.pruner.name, **course.at}.items():
        study.set_user_attr(key, value)
    return study
