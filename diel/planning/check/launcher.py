"""Launchers of a workflow: whether its site has them, and their programs on this machine."""

import os
import re
import sys

from diel.planning.check.violations import Check
from diel.site.find import find_program
from diel.site.shape import Unplaceable, chosen_launcher, launcher_words
from diel.site.site import FOUND_HERE, Site
from diel.workflow.graph.uses import PLACES, VARIABLE, launch_texts, launches
from diel.workflow.models import Resources, Stage

_NO_RANKS = ("a launcher starts ranks, and the stage has none", "write resources: {ranks: 4}")
_OTHER = re.compile(r"^\s*(?:\S*/)?(mpirun|mpiexec|srun|orterun|jsrun|aprun)(?:\.\w+)?(?=\s|$)", re.MULTILINE)
"""A launcher as the first word of a command, or of a line of it."""
_OPEN_MPI = ("--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none")
"""Open MPI counts cores without their threads, and binds the ranks of each task to the same first cores."""


def misplaced(stage: Stage | None, place: str) -> tuple[str, str] | None:
    """Return message and hint for a misplaced `${{ launcher }}` in a stage; None if it is right."""
    if stage is None or stage.command is None or place not in PLACES:
        return (
            "`launcher` stands only in `command`, `env` and templates of a command",
            "the ranks of a module are started by diel",
        )
    return None if stage.resources.mpi else _NO_RANKS


def check_launcher(check: Check, name: str) -> None:
    """Check that a command names a launcher only where there is one, as a word of its own and the only."""
    stage, key = check.workflow.stages[name], ("stages", name, "command")
    if not stage.resources.mpi and any(VARIABLE in text for text in launch_texts(stage)):
        check.add(key, *_NO_RANKS)
    text = stage.command if isinstance(stage.command, str) else str((stage.command or [""])[0])
    other = _OTHER.search(text) if stage.resources.mpi and not launches(stage) else None
    if other is not None:
        message = f"each rank would run {other[1]}: with `ranks` diel launches the command on all of them"
        check.add(
            key if text == stage.command else (*key, 0),
            message,
            f"write ${{{{ launcher }}}} in place of {other[1]} and its options",
            other.start(1),
        )
    for place, word in enumerate(stage.command if isinstance(stage.command, tuple) else ()):
        if isinstance(word, str) and re.search(r"\$\{\{\s*launcher\s*\}\}\s*\S", word):
            message = "`${{ launcher }}` with more behind it is one word here: no program has that name"
            check.add((*key, place), message, 'write a text, or a list: ["${{ launcher }}", PROGRAM]')


def with_launcher(site: Site, pool: str, resources: Resources) -> Site:
    """Return the site with a launcher that is looked for here. Raise Misfit if there is none."""
    chosen = chosen_launcher(site, pool, resources)
    if not isinstance(chosen, str) or chosen in site.launchers:
        return site
    sought = chosen in site.launcher_names
    if sought and (words := here(chosen)):
        return site.model_copy(update={"launchers": {**site.launchers, chosen: words}})
    message = f"site '{site.name}' has no launcher '{chosen}'"
    hint = site.launcher_hint(chosen)
    if sought:
        message += f": there is no {FOUND_HERE[chosen]} on PATH"
        hint = "install it or load its module, or write its words into `launchers` of a site file"
    raise Unplaceable(message, hint, ("resources", "launcher") if resources.launcher else ("resources",))


def words_of(site: Site, pool: str, resources: Resources) -> tuple[str, ...]:
    """Return the words that start a task's ranks; none without ranks. Raise Misfit."""
    words = launcher_words(with_launcher(site, pool, resources), pool, resources) if resources.mpi else ()
    if site.scheduled or not words:
        return words  # the program is on the node, not on this host
    return (find_program(words[0]) or words[0], *words[1:])


def here(name: str) -> tuple[str, ...]:
    """Return the words of the launcher for a name of FOUND_HERE on this machine; empty without one."""
    from diel.worker.attempt.mpi import OPEN_MPI, starter_of  # plans that name no launcher do without

    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
    program = starter_of(FOUND_HERE[name], {"PATH": path})
    if program is None:
        return ()
    root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
    options = (*_OPEN_MPI, *root) if FOUND_HERE[name] == OPEN_MPI else ()
    return (program, *options, "-n", "{ranks}")
