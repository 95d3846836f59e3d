"""The environments of a run: made before it is, and mended when it is taken over."""

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path

from diel.base.errors import Problem, SpecError, UsageError
from diel.base.files import put
from diel.base.paths import RunPaths, kept_environments
from diel.planning.check.environment import definitions_of
from diel.planning.plan import Plan
from diel.site.site import Site
from diel.store.project.run_file import read_run_file
from diel.worker.environments.kept import output_of
from diel.worker.environments.make import make, stamp
from diel.worker.environments.prepared import PreparedEnvironment, prepared_text, read_prepared
from diel.workflow.models.environment import Definition


def make_environments(plan: Plan, runs: Path, folder: Path | None = None) -> dict[str, PreparedEnvironment]:
    """Make the environments that a plan names for its workflow in `folder`. Raise UsageError."""
    stages = plan.workflow.stages.values()
    any_of_them = any(stage.chooses_environment for stage in stages)
    folder = (folder or plan.checked.document.path.parent).resolve()
    definitions = definitions_of(plan.checked.document, plan.site, folder)
    needed = {
        name: definition
        for name, definition in definitions.items()
        if any_of_them or any(stage.environment == name for stage in stages)
    }
    place, here = kept_place(plan.site, runs), not plan.site.scheduled
    tell = partial(print, file=sys.stderr, flush=True)
    try:
        prepared = {
            name: make(name, environment, runs.resolve(), place, tell, here=here).seeing(str(folder))
            for name, environment in needed.items()
        }
    except OSError as error:
        raise UsageError(
            f"cannot make an environment in {place}: {error.strerror}: {error.filename}"
        ) from error
    if problems := list(_lacking(plan, prepared)):
        raise SpecError(problems)
    return prepared


def _lacking(plan: Plan, prepared: Mapping[str, PreparedEnvironment]) -> Iterator[Problem]:
    """Stage whose functions are in no package of their environment. Nothing is imported."""
    ask = (
        "import sys; del sys.path[0]; from importlib.util import find_spec as f; print(f(sys.argv[1]) and 1)"
    )
    has_package = cache(
        lambda python, package: output_of([python, "-c", ask, package], python).strip() == "1"
    )
    for name, module in plan.checked.modules.items():
        stage = plan.workflow.stages[name]
        environment = prepared.get(stage.environment or "")
        if environment is None or module.digest or {"modules", "setup"} & environment.identity.keys():
            continue  # lines can say where more packages are
        python = f"{environment.prefix or os.path.dirname(environment.conda)}/bin/python3"
        package = module.reference.partition(":")[0].partition(".")[0]
        named = "PYTHONPATH" in {*stage.env, *environment.variables}
        if not named and os.path.isfile(python) and not has_package(python, package):
            message = f"environment '{environment.name}' has no package '{package}'"
            hint = "correct the name, or add what brings it to the packages of that environment"
            yield plan.checked.document.problem(("stages", name, "module"), message, hint)


def kept_place(site: Site, runs: Path) -> Path:
    """Return where the environments that are made are kept."""
    if site.cache is None:
        return kept_environments(runs.resolve())
    return Path(os.path.expanduser(os.path.expandvars(site.cache))).absolute()


def mend_environments(plan: Plan, paths: RunPaths, *, anew: bool = False) -> None:
    """Make again what a run needs and somebody removed, or a site defines otherwise; all with `anew`. What
    was made of files that are gone is still good. Raise UsageError where what is made again is another."""
    recorded = read_prepared(paths.environments)
    definitions = _definitions(plan, paths)

    def is_as_made(name: str, prepared: PreparedEnvironment) -> bool:
        now = definitions.get(name)
        return now is not None and now.source == prepared.source and not prepared.gone

    if anew or not recorded or not all(is_as_made(name, prepared) for name, prepared in recorded.items()):
        remade = make_environments(plan, paths.root.parent, read_run_file(paths).folder.resolve())
        for name, prepared in remade.items():
            before = recorded.get(name, prepared)
            if not anew and before.source == prepared.source and before.digest != prepared.digest:
                hint = f"`diel resume {paths.run_id} --update` takes it for all that run in it"
                raise UsageError(f"environment '{name}' was gone, and made again it is another: {hint}")
        put(paths.environments, prepared_text({**recorded, **remade}))


def changed_environments(plan: Plan, paths: RunPaths) -> list[str]:
    """Return the environments of a run whose definitions are others by now."""
    definitions = _definitions(plan, paths)
    return [
        name
        for name, prepared in read_prepared(paths.environments).items()
        if name in definitions and stamp(definitions[name].environment) not in (None, prepared.stamp)
    ]


def _definitions(plan: Plan, paths: RunPaths) -> Mapping[str, Definition]:
    return definitions_of(plan.checked.document, plan.site, read_run_file(paths).folder.resolve())
