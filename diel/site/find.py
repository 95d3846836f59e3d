"""Finding a site, by its name or by the scheduler that answers here, and reading its file."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from diel.base.errors import SpecError, UsageError, did_you_mean
from diel.base.paths import RunPaths, site_folders
from diel.site.site import LOCAL, Site, job_word
from diel.store.project.run_file import reason
from diel.workflow.load import Source, fit, parse, read_text
from diel.workflow.models.model import Violations

EXAMPLE = "write `extends: slurm` (or another site) and what differs; docs/sites.md has examples"
Paths = tuple[Path, ...]
Data = dict[str, Any]
_VERBATIM = {"environments": {"*": {"variables": True}}}


def find_program(name: str) -> str | None:
    """Return a program beside this Python (as pip installs them), or on PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if os.access(beside, os.X_OK) else shutil.which(name)


def find_site(name: str | None, folder: Path) -> Site:
    """Return the site of this name: `--site`, else DIEL_SITE, else `local`; DIEL_ACCOUNT beats its account.
    Looked for in the workflow's `schedulers/`, the current directory's, the user's configuration, in what
    diel ships. Raise UsageError if there is none, SpecError if its file is wrong."""
    word = name or os.environ.get("DIEL_SITE") or LOCAL
    site = read_site(_find(word, folder), folder)
    account = os.environ.get("DIEL_ACCOUNT")
    if not account:
        return site
    try:
        return site.model_copy(update={"account": job_word(account)})
    except Violations as error:
        (flaw,) = error.flaws
        raise UsageError(f"DIEL_ACCOUNT: {flaw.message}; {flaw.hint}") from None


def _find(word: str, folder: Path, beside: Path | None = None, but: Paths = (), chain: Paths = ()) -> Path:
    """Return a site's file: beside one that extends it, or in the folders of sites; not one of `but`. Those
    in `chain` are found, but not suggested. Raise UsageError if there is none."""
    files = [path for place in reversed(site_folders(folder)) for path in sorted(place.glob("*.yaml"))]
    files += sorted(beside.parent.glob("*.yaml")) if beside is not None else []  # the last of a name wins
    places = {path.stem: path for path in files if path.resolve() not in but}
    choices = [name for name, path in places.items() if path.resolve() not in chain]
    is_file = word.endswith((".yaml", ".yml"))
    target = Path(word) if is_file else places.get(word)
    if target is not None and target.exists():
        return target
    hint = did_you_mean(Path(word).stem, choices) or f"sites: {', '.join(sorted(choices))}"
    if is_file:
        raise UsageError(f"no site file '{word}'; check its path, or name a site ({hint})")
    raise UsageError(f"no site '{word}'; {hint}")


def read_site(path: Path, folder: Path = Path()) -> Site:
    """Read a site file. Raise SpecError with all mistakes in it, or in one that it extends."""
    site = _read(path, folder, ())[0]
    return site.from_file(path.absolute())


def _read(path: Path, folder: Path, chain: Paths) -> tuple[Site, Data]:
    """Return a site, and its keys as written, with those of the site that it extends."""
    source, data, problems = parse(read_text(path, "site"), path, _VERBATIM, example=EXAMPLE)
    if source.root is None:
        raise SpecError(problems)
    base = data.get("extends") if isinstance(data, dict) else None
    if isinstance(base, str):
        data = _extended(source, data, base, folder, (*chain, path.resolve()))
    site, misfits = fit(source, data, Site)
    if site is None or problems or misfits:
        raise SpecError([*problems, *misfits])
    return _anchored(site, data, source.path.parent) if site.environments else (site, data)


def _extended(source: Source, data: Data, base: str, folder: Path, chain: Paths) -> Data:
    """Return the keys of a file and of the site that it extends, searched beside it first. A file may extend
    another of its own name: it is then the next one of that name, so that a project's `slurm.yaml` can extend
    the user's, and that one what diel ships."""
    but = chain if chain[-1].stem == base else ()
    try:
        parent = _find(base, folder, source.path, but, chain)
    except UsageError as error:
        raise SpecError([source.problem(("extends",), str(error))]) from error
    if parent.resolve() in chain:
        circle = " → ".join(path.name for path in (*chain, parent))
        hint = f"{circle}; drop one of the `extends`"
        raise SpecError([source.problem(("extends",), "sites extend each other in a circle", hint)])
    from diel.workflow.load.part import merged  # here: few sites extend others

    below = _read(parent, folder, chain)[1]
    # The site is the file's own, and does not pass for the extended one.
    return merged({**below, "name": re.sub(r"\W", "_", chain[-1].stem)}, data, nulls=True)


def detect() -> str:
    """Return the site of the scheduler that answers here, `local` if none. Raise UsageError for several."""
    from diel.site.scheduler.scheduler import find_dialects  # here: few commands ask for it

    dialects = find_dialects()
    # Commands in another scheduler's style do not make another scheduler.
    names = [name for name, dialect in dialects.items() if not dialect.wrapper] or list(dialects)
    if len(names) > 1:
        listed = " and ".join([", ".join(names[:-1]), names[-1]])
        raise UsageError(f"{listed} answer here; choose one with --site {names[0]} (or DIEL_SITE)")
    return names[0] if names else LOCAL


def read_kept_site(paths: RunPaths) -> Site:
    """Return a run's site as it was when the run was made. Raise UsageError if it cannot be read."""
    try:
        return Site.model_validate_json(paths.site.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{paths.run_id}: its site cannot be read: {reason(error)}") from error


def _anchored(site: Site, data: Data, folder: Path) -> tuple[Site, Data]:
    """Return a site and its keys as written, but for absolute paths of environments, which others inherit."""
    entries = {name: entry.beside(folder.absolute()) for name, entry in site.environments.items()}
    written = {name: entry.model_dump(mode="json", exclude_unset=True) for name, entry in entries.items()}
    return site.model_copy(update={"environments": entries}), {**data, "environments": written}
