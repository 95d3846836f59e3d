"""The workflows that a project knows: those of its runs, as their files are now, and those that are named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from diel.errors import DielError, UsageError, did_you_mean
from diel.load import Document, load
from diel.project.runs import all_runs
from diel.results import Recorded
from diel.spec import Hyperparameter


@dataclass(frozen=True)
class Known:
    """A workflow with its hyperparameters."""

    name: str
    where: str
    """Its file, or the run that has it."""
    hyperparameters: dict[str, Hyperparameter]


def known_workflows(runs: Path, files: Iterable[Path] = ()) -> list[Known]:
    """The workflows of a project: the named files first, then those of its runs, the newest first.

    Of a run its file counts, as it is now; where that is gone or wrong, what the run has kept of it.
    Raises SpecError for a named file that is wrong.
    """
    found: dict[str, Known] = {}
    for path in files:
        document = load(path)
        found[document.spec.name] = _known(document, str(path))
    for paths in reversed(all_runs(runs)):
        run = Recorded(paths)
        try:
            if run.run_file.workflow not in found:
                found[run.run_file.workflow] = _of_run(run)
        except DielError:
            continue  # made by another diel, or torn: it has no say here
    return list(found.values())


def _of_run(run: Recorded) -> Known:
    source = Path(run.run_file.source)
    try:
        document = load(source)
        if document.spec.name == run.run_file.workflow:
            return _known(document, str(source))
    except DielError:
        pass
    return _known(run.document, run.paths.run_id)


def _known(document: Document, where: str) -> Known:
    return Known(document.spec.name, where, dict(document.spec.hyperparameters))


def having(known: Iterable[Known], name: str) -> list[Known]:
    """The workflows that have a hyperparameter. Raises UsageError where none has."""
    known = list(known)
    found = [one for one in known if name in one.hyperparameters]
    if found:
        return found
    if not known:
        raise UsageError(
            f"no hyperparameter '{name}': no run here says its type and bounds\n"
            "    name a workflow that has it: --workflow FILE"
        )
    names = sorted(set(_names(known)))
    hint = did_you_mean(name, names) or (f"there are: {', '.join(names)}" if names else "")
    where = ", ".join(one.where for one in known[:3])
    raise UsageError(
        f"no hyperparameter '{name}' in {where}\n    {hint or 'they have none'}; --workflow FILE adds another"
    )


def _names(known: Iterable[Known]) -> Iterator[str]:
    for one in known:
        yield from one.hyperparameters
