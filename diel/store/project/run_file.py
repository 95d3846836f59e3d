"""The run's file: how a run was requested, and what earlier runs of its workflow drew."""

import os
import random
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict

from pydantic import Field, ValidationError

from diel.base.errors import UsageError
from diel.base.files import read_file
from diel.base.files import reason as why
from diel.base.paths import RunPaths, user_file
from diel.store.project.runs import all_runs, runs_of
from diel.workflow.models import Search, SpecModel, Workflow
from diel.workflow.models.forms.sample import Sample
from diel.workflow.models.variables import apply_shell, apply_sizes

MAX_WORKFLOW = 2**26

Sizes = Mapping[str, Mapping[str, Any]]
"""What stages ask for by an earlier run's usage, instead of what their workflow says."""


class RunOptions(TypedDict, total=False):
    """What a user can ask of a run, besides its plan."""

    use_cache: bool
    begin_at: str | None
    fail_fast: bool
    sizes: Sizes


class RunFile(SpecModel):
    """How a run was requested: all that `resume` needs besides the workflow's text."""

    run: str
    id: str = ""
    """Its own, which no other run is ever given; runs from before have none."""
    root: str = ""
    """Its directory, where it was made."""
    workflow: str
    source: str
    """The workflow file, absolute."""
    cwd: str
    site: str
    notify_file: str = ""
    """The file of its site, if that says whom to tell: each controller reads it anew."""
    user_file: str = ""
    """The user's own, if there was one: a job does not know where such files are."""
    hyperparameters: dict[str, Any]
    origins: dict[str, str]
    """Of each value: default, project, file or command line."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Of each value: the line, the setting, or what made it the project's."""
    settings: tuple[str, ...] = ()
    params_files: tuple[str, ...] = ()
    params_texts: dict[str, str] = Field(default_factory=dict)
    """The texts of these, as they were."""
    included: dict[str, str] = Field(default_factory=dict)
    """The texts of the workflows that it includes, as they were, by the file or PACKAGE:NAME of each."""
    use_cache: bool = True
    begin_at: str | None = None
    """The stage from which everything is computed again (`run --from`)."""
    templates: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict)
    """The templates of files as they were: the parts of a Filling."""
    fail_fast: bool = False
    """Whether nothing more is begun after the first failure (`run --fail-fast`)."""
    sizes: Sizes = Field(default_factory=dict)
    seeds: dict[str, int] = Field(default_factory=dict)
    """Of the searches whose file gives none, by axis."""
    trials: tuple[tuple[str, int, int], ...] = ()
    """Of searches that were given more since (`resume --trials`): axis, how many it had, and has; in turn."""
    shell: dict[str, str] = Field(default_factory=dict)
    """Variables of the shell that commands read by name and nothing declares, as they were."""
    carried: dict[str, str] = Field(default_factory=dict)
    """Where programs and libraries were, by the variables that are taken along to every site."""
    created: float
    host: str
    user: str
    diel: str
    python: str

    def apply(self, workflow: Workflow) -> None:
        """Give a workflow what was asked of this run beside its file."""
        apply_sizes(workflow, self.sizes)
        apply_shell(workflow, self.shell)
        for label, _, trials in self.trials:
            if isinstance(axis := workflow.axes.get(label), Search):
                workflow.axes[label] = axis.model_copy(update={"trials": trials})

    @property
    def grown(self) -> list[tuple[str, int]]:
        """The searches that were given more trials, with how many they had had; the latest last."""
        return [(label, had) for label, had, _ in self.trials]

    @property
    def tells(self) -> bool:
        """Whether somebody may want to be told what happens."""
        return bool(self.notify_file or self.user_file) or user_file().exists()

    @property
    def command_line(self) -> str:
        """What asks for the same, typed where it was asked for."""
        source = Path(self.source)
        here = source.relative_to(self.cwd) if source.is_relative_to(self.cwd) else source
        words = ["diel", "run", str(here)]
        words += [word for setting in self.settings for word in ("--set", setting)]
        words += [word for file in self.params_files for word in ("--params", file)]
        words += [] if self.site == "local" else ["--site", self.site]
        words += [] if self.use_cache else ["--no-cache"]
        words += ["--fail-fast"] if self.fail_fast else []
        words += ["--from", self.begin_at] if self.begin_at else []
        return shlex.join(words)

    @property
    def folder(self) -> Path:
        """The workflow file's directory: where its files and modules are."""
        return Path(self.source).parent


def read_run_file(paths: RunPaths) -> RunFile:
    """Read it. Raise UsageError if a directory holds no run."""
    try:
        return RunFile.model_validate_json(paths.run_file.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{paths.root} holds no run that this diel can read: {reason(error)}") from error


def read_kept_workflow(paths: RunPaths) -> str:
    """Return the text of the workflow as it was when the run was made. Raise UsageError if it is missing."""
    try:
        text = read_file(paths.workflow, MAX_WORKFLOW).decode("utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{paths.run_id}: its workflow cannot be read: {why(error)}: {paths.workflow}"
        ) from error
    if not text.strip():
        raise UsageError(
            f"{paths.run_id}: its workflow is gone: {paths.workflow} is empty; "
            "copy the workflow file there, as it was when the run began"
        )
    return text


def reason(error: OSError | ValueError) -> str:
    """Say why a file of a run cannot be read, in one line."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])
    return str(error)


def refuse_copied(paths: RunPaths) -> None:
    """Raise UsageError in a project that was moved or copied: the run names files where it was made."""
    run = read_run_file(paths)
    place = os.path.relpath(run.root, os.path.realpath(run.folder)) if run.root else os.pardir
    if place.startswith(os.pardir) or run.root == str(paths.root.resolve()):
        return
    folder = paths.root.resolve().parents[len(Path(place).parts) - 1]
    if (folder / Path(run.source).name).exists():
        raise UsageError(
            f"{run.run} was made in {run.folder} and reads the files there, not those in {folder}\n"
            "    start anew here with `diel run`, which takes from the cache what has not changed"
        )


def draw_seeds(workflow: Workflow, runs: Path, *, anew: bool) -> dict[str, int]:
    """Return a seed for each search without one: the last run's, for the cache; or a new one."""
    unseeded = [
        name for name, axis in workflow.axes.items() if isinstance(axis, Search) and axis.seed is None
    ]
    before = {} if anew or not unseeded else _last(workflow.name, runs)
    return {name: before.get(name, random.SystemRandom().randrange(2**32)) for name in unseeded}


def enlarged_designs(workflow: Workflow, runs: Path) -> Iterator[tuple[str, str, int]]:
    """Latin hypercubes of another size than when last drawn: the axis, that run, its points."""
    labels = [
        label
        for label, axis in workflow.axes.items()
        if isinstance(axis, Sample) and axis.method == "lhs" and axis.points > 1
    ]
    earlier = runs_of(workflow.name, runs) if labels else []
    for label in labels:
        for file in (paths.axis(label) for paths in reversed(earlier)):
            if file.is_file():
                count = file.read_bytes().count(b"\n") - 1
                if count != workflow.axes[label].size({}):
                    yield label, file.parent.parent.name, count
                break


def _last(workflow: str, runs: Path) -> Mapping[str, int]:
    for paths in reversed(all_runs(runs)):
        try:
            file = read_run_file(paths)
        except UsageError:  # of another version
            continue
        if file.workflow == workflow and file.seeds:
            return file.seeds
    return {}
