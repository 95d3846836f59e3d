"""The key or value that was meant, for a word of another tool: the first that is one in its place."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from diel.errors import did_you_mean
from diel.load.nodes import Key
from diel.spec.model import SpecModel, WrittenAs

_TABLE = """
ranks: ntasks n_tasks num_tasks procs nprocs processes np n mpiprocs num_ranks nranks rank
memory: mem ram mem_mb mem_gb mem_per_node
walltime: time time_limit timelimit wall_time wallclock max_time runtime duration
cores_per_rank: ncpus cpus cpu num_cpus cpus_per_task threads nthreads num_threads cores omp_threads
gpus_per_rank: gpus gpu ngpus num_gpus gres gpus_per_task accelerators
nodes: nnodes num_nodes node hosts
pool: queue partition qos executor
after: depends depends_on dependencies needs requires upstream
command: cmd run script shell exec executable
module: function func task callable uses
params: parameters args arguments kwargs config settings
env: envs variables vars environ
over: foreach for_each matrix sweep axes axis with_items scatter expand
retries: retry max_retries retry_limit attempts error_strategy errorstrategy
inputs: input in
outputs: output out artifacts
when: if condition only_if run_if active_if
timeout: time deadline time_limit timelimit walltime
resources: requirements requests limits directives
on: on_failure on_error
environment: container image conda
environments: envs containers software
python: pip requirements venv
container: singularity apptainer podman docker
variables: env envs vars
image: name file sif docker
stages: steps step tasks jobs job rules processes pipeline
hyperparameters: hparams hyperparams hps params parameters variables vars
values: value list choices
linspace: linear lin
logspace: geomspace log logarithmic
sample: lhs sobol latin_hypercube
search: optuna optimize tune
trials: n_trials num_trials max_trials num_samples budget
parallel: concurrency n_jobs workers
sampler: algorithm algo strategy
minimize: metric metrics objective objectives goal loss direction directions
watch: monitor report_metric
startup: n_startup_trials n_initial_points warmup
until: while stop condition patience tolerance tol
max: iterations max_iterations max_iter rounds max_rounds limit epochs
points: n samples num_samples size count
low: min minimum lower lower_bound
high: max maximum upper upper_bound
default: value initial
template: source src
match: regex regexp pattern
export: publish publishdir publish_dir
oom: out_of_memory oomkill memory
preempted: preempt preemption
extends: extend base inherits template
pools: pool partitions partition queues
launcher: mpi mpirun mpiexec srun
setup: worker_init modules prologue init
options: scheduler_options sbatch qsub
queue: partition
cores: cpus ncpus ntasks procs ppn
blocks: max_blocks max_jobs
int: integer
float: double real number uniform loguniform
str: string text
bool: boolean
choice: categorical enum
list: array
dict: object mapping
training: train
lhs: latin_hypercube
nsga2: nsga_ii
asha: successive_halving
podman: docker
job: batch
read: ro read_only readonly
"""
"""diel's keys and values, each with what others call it."""
_FAR = {
    "launcher": "a stage or a pool of a site chooses one: stages: {NAME: {resources: {launcher: …}}}",
    "launchers": "their words go into a site file: schedulers/NAME.yaml",
}
"""Where keys of a whole file go that are neither its own nor one level down."""
_OF_ENVIRONMENT = ("conda", "container", "modules", "setup", "spack")


MEANINGS: dict[str, tuple[str, ...]] = {}
for _word, _, _synonyms in (_line.partition(":") for _line in _TABLE.strip().splitlines()):
    MEANINGS |= {_synonym: (*MEANINGS.get(_synonym, ()), _word) for _synonym in _synonyms.split()}


def unknown_hint(key: Key, root: type[SpecModel]) -> str:
    """Say what to do about an unknown key: the one that was meant, where it belongs, or the known keys."""
    word, models = str(key[-1]), models_at(key[:-1], root)
    if key[0] == "stages" and len(key) == 3 and word in _OF_ENVIRONMENT:
        return f"write environments: {{NAME: {{{word}: …}}}} in the file, and environment: NAME here"
    if meant := meant_key(word, models, near=False):
        return f"did you mean '{meant}'?"
    if below := _home_below(word, models) or (_FAR.get(word, "") if len(key) == 1 else ""):
        return below
    meant = meant_key(word, models)
    return f"did you mean '{meant}'?" if meant else f"keys here: {', '.join(_fields(models))}"


def meant_key(word: str, models: Sequence[type[SpecModel]], near: bool = True) -> str:
    """Return the key that a word means in these models; empty if none is close."""
    known = _fields(models)
    if exact := next((one for one in _meanings(word) if one in known), ""):
        return exact
    if not near or _home_below(word, models):
        return ""
    match = re.search(r"'(.*)'", did_you_mean(_meanings(word)[0], known))
    return match[1] if match else ""


def _meanings(word: str) -> tuple[str, ...]:
    lower = word.lower().replace("-", "_")
    return lower, *MEANINGS.get(lower, ())


def meant_value(value: Any, choices: Sequence[str]) -> str:
    """Return the choice that a value means; empty if it is none by another name."""
    return next((one for one in _meanings(str(value))[1:] if one in choices), "")


def _home_below(word: str, models: Sequence[type[SpecModel]]) -> str:
    """Say where a key belongs one level down; empty if nowhere."""
    for label, info in _fields(models).items():
        for inner, named in _inner(info.annotation):
            # Below a user's own name only the exact word counts: others mean too many things.
            for meant in _meanings(word)[: 1 if named else None]:
                if meant in _fields([inner]):
                    holder = f"{label}.NAME" if named else label
                    example = f"{{NAME: {{{meant}: …}}}}" if named else f"{{{meant}: …}}"
                    return f"'{meant}' goes under `{holder}`: write {label}: {example}"
    return ""


def _fields(models: Iterable[type[SpecModel]]) -> dict[str, Any]:
    """Return the fields of models by their keys, the first of each."""
    fields: dict[str, Any] = {}
    for model in models:
        for name, info in model.model_fields.items():
            fields.setdefault(info.alias or name, info)
    return fields


def description(key: Key, root: type[SpecModel]) -> str:
    """Return the models' description of a key."""
    infos = (_fields([model]).get(str(key[-1])) for model in models_at(key[:-1], root))
    found = next((info.description for info in infos if info is not None and info.description), "")
    return f"{key[-1]}: {found}" if found else ""


def models_at(key: Key, root: type[SpecModel]) -> list[type[SpecModel]]:
    """Return the models that can be at a key's path."""
    kinds: list[Any] = [root]
    for part in key:
        kinds = [child for kind in kinds for child in _children(kind, part)]
    return [kind for kind in kinds if _is_model(kind)]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, SpecModel)


def _children(kind: Any, part: str | int) -> Iterator[Any]:
    if _is_model(kind):
        if (info := _fields([kind]).get(str(part))) is not None:
            yield from _branches(info.annotation)
    elif get_origin(kind) in (dict, tuple):
        yield from _branches(get_args(kind)[1 if get_origin(kind) is dict else 0])


def _branches(kind: Any) -> Iterator[Any]:
    """Take the members of a union apart."""
    if get_origin(kind) is Annotated:
        bare, *notes = get_args(kind)
        yield from _branches(next((one.model for one in notes if isinstance(one, WrittenAs)), bare))
    elif get_origin(kind) in (Union, types.UnionType):
        for member in get_args(kind):
            yield from _branches(member)
    else:
        yield kind


def _inner(kind: Any) -> Iterator[tuple[type[SpecModel], bool]]:
    """Return the models below a field, and whether each has a name of its own above it."""
    for branch in _branches(kind):
        named = get_origin(branch) is dict
        for inner in _branches(get_args(branch)[1]) if named else (branch,):
            if _is_model(inner):
                yield inner, named
