"""Every path of a run, and of the files that diel ships: all are made here.

runs/<workflow>-<n>/
    run.json                      what was asked for: workflow file, overrides, versions
    workflow.yaml                 the text as it was when the run began
    site.json                     the site as it was when the run was made
    environments.json             the environments of its stages, as they were made
    sources/                      what its modules import of a user's, as bytes; what its other files were
    submissions/0001.json         where controllers of the run were asked to live
    lease.json                    which controller drives the run; its mtime is the heartbeat
    snapshot.json                 the folded journal up to some offsets, for a fast status
    timeline.json.gz              when and where attempts ran, up to some offsets, for a fast page
    journal/controller-0001.jsonl one file a controller, numbered by epoch
    journal/worker-….jsonl        one file a worker process
    requests/cancel-….json        what users asked of the controller
    fences/<block>                its workers that were given up for lost
    services/<stage>/<index>.json where a replica of a service is
    services/token                what its consumers must show: for the owner's eyes only
    axes/<axis>.jsonl             points of file, sample and derived axes
    tasks/<stage>/<index>/        a task's directory; later attempts get <index>.<attempt>
    logs/                         what workers capture, and Parsl's logs
    energy/<who>.json             joules that a machine counted meanwhile
    notices/<what>.<whom>.jsonl   what was told to whom, and what went wrong
    streams/                      items of streams and tuples; broker.json says where their broker listens
    cache.keys                    sorted cache keys of the run's committed results
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal


def runs_dir(folder: Path | None = None) -> Path:
    """Return the directory of the runs: as given, else DIEL_RUNS, else `runs` here."""
    return folder if folder is not None else Path(os.environ.get("DIEL_RUNS") or "runs")


def registry_dir(runs: Path) -> Path:
    """Return where the project of these runs keeps its hyperparameters: one file for each change."""
    return runs / ".registry"


def kept_environments(runs: Path) -> Path:
    """Return where the project of these runs keeps the environments that were made, by content."""
    return runs / ".environments"


class _Below:
    """A path below a run's root."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def __get__(self, run: "RunPaths", owner: "type[RunPaths]") -> Path:
        return run.root.joinpath(*self._parts)


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The files of one run, below `root` (absolute)."""

    root: Path

    run_file = _Below("run.json")
    workflow = _Below("workflow.yaml")
    site = _Below("site.json")
    environments = _Below("environments.json")
    exports = _Below("exports.jsonl")
    sources = _Below("sources")
    lease = _Below("lease.json")
    submissions = _Below("submissions")
    snapshot = _Below("snapshot.json")
    timeline = _Below("timeline.json.gz")
    journal = _Below("journal")
    requests = _Below("requests")
    fences = _Below("fences")
    """What workers may no longer do: one file for each block that was given up or lost workers."""
    axes = _Below("axes")
    searchers = _Below("searchers")
    services = _Below("services")
    tasks = _Below("tasks")
    logs = _Below("logs")
    captures = _Below("logs", "captures")
    """Where workers catch the output of the task that they run."""
    blocks = _Below("logs", "blocks")
    """Job scripts of the run's blocks, and what these jobs print."""
    controllers = _Below("logs", "controllers")
    """Job scripts of the run's controllers, and what these jobs print."""
    controller_log = _Below("logs", "controller.log")
    """The output of controllers that run unattended."""
    energy = _Below("energy")
    """What machines counted: a file for each controller of one machine, and for each node of a block."""
    notices = _Below("notices")
    """What was told to whom: a file for each address of each notice."""
    streams = _Below("streams")
    stream_facts = _Below("streams", "facts.json")
    """The state of the channels, as the broker last reported it."""
    broker_log = _Below("logs", "broker.log")
    """The output of brokers."""
    cache_keys = _Below("cache.keys")

    @property
    def run_id(self) -> str:
        return self.root.name

    def own(self) -> Iterator[Path]:
        """Yield the folders in which the run's processes leave files for each other: none is large."""
        yield from (self.root, self.fences, self.axes, self.streams, self.services)
        yield from chain(self.streams.glob("channels/*/"), self.services.glob("*/"))

    def shared(self) -> tuple[Path, ...]:
        """Return the folders in which other commands leave files too, at any time: none is large."""
        return self.submissions, self.requests, registry_dir(self.root.parent)

    def submission(self, number: int) -> Path:
        return self.submissions / f"{number:04d}.json"

    def controller_segment(self, epoch: int) -> Path:
        return self.journal / f"controller-{epoch:04d}.jsonl"

    def fence(self, block: str) -> Path:
        return self.fences / block

    def axis(self, name: str) -> Path:
        return self.axes / f"{name}.jsonl"

    def earlier(self, axis: str) -> Path:
        """Return what earlier runs found, as a search is told it."""
        return self.axes / f"{axis}.earlier.json"

    def searcher(self, axis: str, context: Sequence[int]) -> Path:
        """Return what the searcher of a search knows that draws slowly: a shortcut."""
        return self.searchers / ".".join([axis, *map(str, context)])

    def block_script(self, block: str) -> Path:
        """Return the job script of a block."""
        return self.blocks / f"{block}.sh"

    def block_begin(self, block: str) -> Path:
        """Return the file with a block's begin, in whole seconds since the epoch: its job writes it first."""
        return self.blocks / f"{block}.began"

    def node_script(self, block: str) -> Path:
        """Return the command of each node of a block."""
        return self.blocks / f"{block}.node.sh"

    def task_dir(self, stage: str, index: int, attempt: int) -> Path:
        return self.tasks / stage / task_dir_name(index, attempt)


def epoch_of(segment: str) -> int:
    """Return the epoch of a controller's or worker's segment, by its name."""
    return int(segment.split("-")[1].partition(".")[0])


def task_dir_name(index: int, attempt: int) -> str:
    """Return the name of an attempt's directory: each attempt gets a clean one."""
    return str(index) if attempt == 1 else f"{index}.{attempt}"


def shipped(kind: Literal["modules", "workflows", "schedulers", "clients"]) -> Path:
    """Return a folder that diel ships: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "_shipped" / kind
    return installed if installed.is_dir() else package.parent / kind


def user_file() -> Path:
    """Return the user's settings for every machine."""
    return _settings() / "config.yaml"


def _settings() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "diel"


def site_folders(folder: Path) -> tuple[Path, ...]:
    """Return where site files are looked for; the first with a name wins."""
    return (folder / "schedulers", Path("schedulers"), _settings() / "schedulers", shipped("schedulers"))


def here(paths: RunPaths) -> str:
    """` --runs DIR`, if a command would not find this run without it."""
    where = paths.root.parent
    return "" if where == runs_dir().resolve() else f" --runs {shlex.quote(str(where))}"
