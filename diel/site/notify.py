"""Whom runs tell that something happened: `notify` in a site's file, or in the user's own.

An address may hold a secret: it is read anew for each controller, and no file of a run has it.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from diel.base.errors import SpecError, UsageError
from diel.site.find import read_site
from diel.site.site import Site
from diel.workflow.load import fit, parse, read_text
from diel.workflow.models.model import Items, SpecModel
from diel.workflow.models.notify import EXAMPLE, Notify


class UserFile(SpecModel):
    """What a user wants on every machine: ~/.config/diel/config.yaml."""

    notify: Items[Notify] = ()


def read_user_file(path: Path) -> UserFile:
    """Return the user's own settings; none without a file. Raise SpecError with all that is wrong in it."""
    if not path.exists():
        return UserFile()
    source, data, problems = parse(read_text(path, "settings"), path, {}, example=EXAMPLE)
    file, misfits = fit(source, data, UserFile) if source.root is not None else (None, [])
    if file is None or problems or misfits:
        raise SpecError([*problems, *misfits])
    return file


def addresses(site: Site, own: Path) -> tuple[Notify, ...]:
    """Whom a run on a site tells, by its file and the user's `own`. Raise SpecError or UsageError."""
    listed = (*site.notify, *read_user_file(own).notify)
    if any(address.apprise for address in listed) and find_spec("apprise") is None:
        raise UsageError("`notify` has an address for Apprise, which is not here: pip install 'diel[notify]'")
    return listed


def notify_again(file: str) -> tuple[Any, ...]:
    """Return the present content of the file of a run's site; nothing if that is gone or wrong."""
    try:
        return read_site(Path(file)).notify if file else ()
    except (SpecError, UsageError):
        return ()
