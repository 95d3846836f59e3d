"""Finding a site, by its name or by the scheduler that answers here, and reading its file."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from diel.errors import SpecError, UsageError, did_you_mean
from diel.load import Source, fit, parse, read_text
from diel.paths import RunPaths, site_folders
from diel.project.run_file import reason
from diel.site.site import LOCAL, Site, job_word
from diel.spec.model import Flaws

EXAMPLE = "write `extends: slurm` (or another site) and what differs; docs/sites.md has examples"
Paths = tuple[Path, ...]
Data = dict[str, Any]
_VERBATIM = {"environments": {"*": {"variables": True}}}


def find_program(name: str) -> str | None:
    """A program beside this Python (as pip installs them), or on PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if os.access(beside, os.X_OK) else shutil.which(name)


def find_site(name: str | None, folder: Path) -> Site:
    """The site of this name: `--site`, else DIEL_SITE, else `local`; DIEL_ACCOUNT beats its account.

    Looked for in the workflow's `schedulers/`, the current directory's, the user's configuration, in what
    diel ships. Raises UsageError if there is none, SpecError if its file is wrong.
    """
    wanted = name or os.environ.get("DIEL_SITE") or LOCAL
    site = read_site(_find(wanted, folder), folder)
    account = os.environ.get("DIEL_ACCOUNT")
    if not account:
        return site
    try:
        return site.model_copy(update={"account": job_word(account)})
    except Flaws as error:
        (flaw,) = error.flaws
        raise UsageError(f"DIEL_ACCOUNT: {flaw.message}; {flaw.hint}") from None


def _find(wanted: str, folder: Path, beside: Path | None = None, but: Paths = (), seen: Paths = ()) -> Path:
    """The file of a site: beside a file that extends it, or in the folders of sites; not one of `but`. Those
    in `seen` are found, but not suggested. Raises UsageError if there is none."""
    files = [path for place in reversed(site_folders(folder)) for path in sorted(place.glob("*.yaml"))]
    files += sorted(beside.parent.glob("*.yaml")) if beside is not None else []  # the last of a name wins
    known = {path.stem: path for path in files if path.resolve() not in but}
    others = [name for name, path in known.items() if path.resolve() not in seen]
    is_file = wanted.endswith((".yaml", ".yml"))
    found = Path(wanted) if is_file else known.get(wanted)
    if found is not None and found.exists():
        return found
    hint = did_you_mean(Path(wanted).stem, others) or f"sites: {', '.join(sorted(others))}"
    if is_file:
        raise UsageError(f"no site file '{wanted}'; check its path, or name a site ({hint})")
    raise UsageError(f"no site '{wanted}'; {hint}")


def read_site(path: Path, folder: Path = Path()) -> Site:
    """Reads a site file. Raises SpecError with all that is wrong in it, or in one that it extends."""
    site = _read(path, folder, ())[0]
    return site.from_file(path.absolute())


def _read(path: Path, folder: Path, seen: Paths) -> tuple[Site, Data]:
    """A site, and its keys as written, including those of the site that it extends."""
    source, data, problems = parse(read_text(path, "site"), path, _VERBATIM, example=EXAMPLE)
    if source.root is None:
        raise SpecError(problems)
    base = data.get("extends") if isinstance(data, dict) else None
    if isinstance(base, str):
        data = _extended(source, data, base, folder, (*seen, path.resolve()))
    site, misfits = fit(source, data, Site)
    if site is None or problems or misfits:
        raise SpecError([*problems, *misfits])
    return _anchored(site, data, source.path.parent) if site.environments else (site, data)


def _extended(source: Source, data: Data, base: str, folder: Path, seen: Paths) -> Data:
    """The keys of a file and of the site that it extends, searched beside it first.

    A file may extend another of its own name: it is then the next one of that name, so that a project's
    `slurm.yaml` can extend the user's, and that one what diel ships.
    """
    but = seen if seen[-1].stem == base else ()
    try:
        found = _find(base, folder, source.path, but, seen)
    except UsageError as error:
        raise SpecError([source.problem(("extends",), str(error))]) from error
    if found.resolve() in seen:
        circle = " → ".join(path.name for path in (*seen, found))
        hint = f"{circle}; drop one of the `extends`"
        raise SpecError([source.problem(("extends",), "sites extend each other in a circle", hint)])
    from diel.load.part import merged  # here: few sites extend others

    below = _read(found, folder, seen)[1]
    # The site is the file's own: it does not pass for the one that it extends.
    return merged({**below, "name": re.sub(r"\W", "_", seen[-1].stem)}, data, nulls=True)


def detect() -> str:
    """The generic site of the one scheduler that answers here; `local` if none does. Raises UsageError if
    several answer."""
    from diel.scheduler.scheduler import find_dialects  # here: few commands ask for it

    found = find_dialects()
    # Commands in another scheduler's style do not make another scheduler.
    names = [name for name, dialect in found.items() if not dialect.wrapper] or list(found)
    if len(names) > 1:
        told = " and ".join([", ".join(names[:-1]), names[-1]])
        raise UsageError(f"{told} answer here; choose one with --site {names[0]} (or DIEL_SITE)")
    return names[0] if names else LOCAL


def read_kept_site(paths: RunPaths) -> Site:
    """The site as it was when its run was made. Raises UsageError if it cannot be read."""
    try:
        return Site.model_validate_json(paths.site.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{paths.run_id}: its site cannot be read: {reason(error)}") from error


def _anchored(site: Site, data: Data, folder: Path) -> tuple[Site, Data]:
    """A site and its keys as written, with the paths of environments absolute. A file that extends it, from
    another folder, then inherits them as they are meant."""
    made = {name: one.beside(folder.absolute()) for name, one in site.environments.items()}
    written = {name: one.model_dump(mode="json", exclude_unset=True) for name, one in made.items()}
    return site.model_copy(update={"environments": made}), {**data, "environments": written}
