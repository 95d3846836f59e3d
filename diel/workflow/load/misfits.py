"""Misfits of a file's content and the models, in diel's words and with hints.

The models say what is right; here their refusals become messages: one for each place, however many
branches of a union refused it, with unknown keys traced to the word that was meant.
"""

import re
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import ValidationError

from diel.base.errors import did_you_mean
from diel.workflow.load.nodes import Key
from diel.workflow.models.model import SpecModel, StoredAs, Violation, Violations, quote

M = TypeVar("M", bound=SpecModel)

_ROUNDS = 4
_MOST = 500
"""The most refusals to trace: more than anyone reads, and still fast."""
_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "none_required": "null",
}
_SWITCHES = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_FIRST_LINES: dict[Key, str] = {
    ("Workflow", "diel"): "begin the file with `diel: 1`",
    ("Workflow", "name"): "write `name: NAME`; it names the runs",
    ("Workflow", "stages"): "write `stages: {NAME: {command: [echo, hello]}}`",
    ("Site", "name"): "write `name: NAME`, the file's own",
    ("Site", "scheduler"): "write `scheduler: slurm` (or another, or local), or `extends: SITE`",
    ("Site", "pools"): "write `pools: {NAME: {queue: QUEUE, cores: 64}}`, or `extends: SITE`",
}
"""Examples of a whole file's missing keys, by the file's model."""

QUOTED = "put it in quotes: '{text}'"
"""A hint for a scalar, with a place for its text as the file writes it."""


def check(data: dict[str, Any], model: type[M]) -> tuple[M | None, list[Violation]]:
    """Return the model, if only keys are wrong, and all misfits: unknown keys count as the nearest."""
    misfits: dict[tuple[Key, str], Violation] = {}
    renamed: dict[Key, Key] = {}
    for turn in range(_ROUNDS):
        try:
            return model.model_validate(data, context=turn or None), list(misfits.values())
        except ValidationError as error:
            many = error.error_count() > _MOST
            errors = error.errors(include_url=False)[:_MOST]
        unknown = [_resolved(item["loc"], data, 1) for item in errors if item["type"] == "extra_forbidden"]
        # An unknown key is most likely the one that is missing beside it: the next round shows it.
        guilty = {key[:-1] for key in unknown}
        errors = [
            e for e in errors if e["type"] != "missing" or _resolved(e["loc"], data, 1)[:-1] not in guilty
        ]
        for misfit in _misfits(errors, data, model):
            key = _as_written(misfit.key, renamed)
            misfits.setdefault((key, misfit.message), misfit._replace(key=key))
        if many or (turn and not unknown):
            break
        data = _repaired(data, unknown, renamed, model)
    return None, list(misfits.values())


def _as_written(key: Key, renamed: dict[Key, Key]) -> Key:
    """Return a key's path in the file's own words, where unknown keys were taken for known ones."""
    lengths = (length for length in range(len(key), 0, -1) if key[:length] in renamed)
    return next(((*renamed[key[:length]], *key[length:]) for length in lengths), key)


def _repaired(data: Any, unknown: Sequence[Key], renamed: dict[Key, Key], root: type[SpecModel]) -> Any:
    data = _copied(data, {key[:length] for key in unknown for length in range(len(key))})
    for key in unknown:
        parent = data
        for part in key[:-1]:
            parent = parent[part]
        value = parent.pop(key[-1])
        meant = meant_key(str(key[-1]), models_at(key[:-1], root))
        if meant and meant not in parent:
            parent[meant] = value
            renamed[(*key[:-1], meant)] = _as_written(key, renamed)
    return data


def _copied(data: Any, paths: set[Key], here: Key = ()) -> Any:
    if here not in paths:
        return data
    if isinstance(data, dict):
        return {name: _copied(child, paths, (*here, name)) for name, child in data.items()}
    if isinstance(data, list):
        return [_copied(child, paths, (*here, place)) for place, child in enumerate(data)]
    return data


def _misfits(errors: Iterable[Any], data: Any, root: type[SpecModel]) -> Iterator[Violation]:
    places: dict[Key, list[Any]] = {}
    for error in errors:
        if error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]:
            continue  # a problem at the entry says it
        keep = 1 if error["type"] in ("extra_forbidden", "missing") else 0
        key = _resolved(error["loc"], data, keep)
        # Part of a stage: another part may have the missing key.
        partial = key[:1] == ("templates",) or (key[:1] == ("include",) and key[2:3] == ("stages",))
        if error["type"] != "missing" or not partial:
            places.setdefault(key, []).append(error)
    for key, refusals in places.items():
        sayings = [error for error in refusals if error["type"] not in _KINDS]
        if sayings:
            # This branch of a union says more than that the type is wrong.
            yield from _flaws_of(key, sayings[0], root)
        elif not any(len(other) > len(key) and other[: len(key)] == key for other in places):
            yield _wrong_kind(key, refusals, root)


def _resolved(loc: Sequence[str | int], data: Any, keep: int) -> Key:
    """Return a refusal's path: what of `loc` names data and no branch of a union, and the last `keep`."""
    key: list[str | int] = []
    end = len(loc) - keep
    for part in loc[:end]:
        named = isinstance(data, dict) and part in data
        listed = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if named or listed:
            key.append(part)
            data = data[part]
    return (*key, *loc[end:])


def _flaws_of(key: Key, error: Any, root: type[SpecModel]) -> Iterator[Violation]:
    kind, context = error["type"], error.get("ctx", {})
    at_key = bool(error["loc"]) and error["loc"][-1] == "[key]"
    if kind == "value_error":
        cause = context["error"]
        if isinstance(cause, Violations):
            for flaw in cause.flaws:
                whole = (*key, *flaw.key)
                named = bool(flaw.key) and whole[-2:-1] in (("axes",), ("outputs",), ("env",))
                yield flaw._replace(key=whole, at_key=at_key or named)
        else:
            yield Violation(str(cause), key=key)
    elif kind == "extra_forbidden":
        yield Violation("unknown key", unknown_hint(key, root), key, at_key=True)
    elif kind == "missing":
        lines = (_FIRST_LINES.get((base.__name__, *key)) for base in root.__mro__)
        first = next(filter(None, lines), None)
        yield Violation(f"the key '{key[-1]}' is missing", first or description(key, root), key[:-1])
    elif kind == "literal_error":
        yield _wrong_choice(key, error["input"], str(context["expected"]))
    else:
        hint = _name_hint(key, error["input"]) if kind == "string_pattern_mismatch" else ""
        yield Violation(_bound(kind, context, error["input"]), hint, key, at_key=at_key)


def _wrong_kind(key: Key, refusals: Sequence[Any], root: type[SpecModel]) -> Violation:
    value = refusals[0]["input"]
    words = list(dict.fromkeys(_KINDS[error["type"]] for error in refusals))
    if "a number" in words:
        words = [word for word in words if word != "a whole number"]
    expected = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    return Violation(
        f"expected {expected}, found {quote(value)}",
        _kind_hint(expected, value, key) or description(key, root),
        key,
    )


def _kind_hint(expected: str, value: Any, key: Key) -> str:
    if "text" in expected and isinstance(value, bool | int | float):
        return QUOTED
    if value is None and expected in ("a mapping", "a list"):
        return "omit the key, or give it a value"
    if expected == "a list":
        return f"write [{value}]" if isinstance(value, str | int | float) else "write [a, b]"
    if expected == "a mapping" and isinstance(value, list) and len(key) == 1:
        return f"write each entry under its name, as in {key[0]}: {{NAME: {{...}}}}"
    return _scalar_hint(expected, value)


def _scalar_hint(expected: str, value: Any) -> str:
    switch = _SWITCHES.get(str(value).lower()) if expected == "true or false" else None
    if switch is not None:
        return f"write {switch}; YAML 1.2 reads {value} as text"
    if expected == value == "null":
        return "write null, without quotes"
    if expected == "a whole number" and isinstance(value, float) and value.is_integer():
        return f"write {int(value)}" if abs(value) < 1e15 else ""
    if "number" in expected and isinstance(value, str):
        if re.fullmatch(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", value, re.IGNORECASE):
            return "remove the quotes"
        if re.fullmatch(r"[-+]?[0-9][0-9_,]*", value):
            return f"write {re.sub('[_,]', '', value)}"
    return ""


def _wrong_choice(key: Key, value: Any, expected: str) -> Violation:
    choices = re.findall(r"'([^']*)'", expected)
    meant = next((meaning for meaning in _meanings(str(value))[1:] if meaning in choices), "")
    hint = f"did you mean '{meant}'?" if meant else did_you_mean(str(value), choices)
    return Violation(f"expected one of {', '.join(choices)}; found {quote(value)}", hint, key)


_BOUNDS = {
    "greater_than_equal": "expected at least {ge}, found {found}",
    "greater_than": "expected more than {gt}, found {found}",
    "less_than_equal": "expected at most {le}, found {found}",
    "less_than": "expected less than {lt}, found {found}",
    "string_too_short": "expected some text, found an empty one",
    "string_too_long": "expected at most {max_length} characters, found {size}",
    "string_pattern_mismatch": "{found} is not a name",
    "finite_number": "expected a finite number, found {found}",
}


def _bound(kind: str, context: dict[str, Any], value: Any) -> str:
    size = len(value) if isinstance(value, str | list | tuple | dict) else 0
    if kind == "too_short":
        least = context["min_length"]
        return f"expected at least {least} {'entry' if least == 1 else 'entries'}, found {size or 'none'}"
    return _BOUNDS.get(kind, "not valid here").format(**context, found=quote(value), size=size)


def _name_hint(key: Key, value: Any) -> str:
    if key == ("name",):
        return "letters, digits, `_`, `.` and `-`, and a letter or digit first"
    meant = re.sub(r"[^A-Za-z0-9_]", "_", str(value))
    meant = meant if meant[:1].isalpha() else f"x{meant}"
    return f"letters, digits and `_`, and a letter first; for instance {meant[:64]}"


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
"""diel's keys and values, each with its names in other tools."""
_FAR = {
    "launcher": "a stage or a pool of a site chooses one: stages: {NAME: {resources: {launcher: …}}}",
    "launchers": "their words go into a site file: schedulers/NAME.yaml",
}
"""The right places for keys that are neither a file's own nor one level down."""
_OF_ENVIRONMENT = ("conda", "container", "modules", "setup", "spack")

MEANINGS: dict[str, tuple[str, ...]] = {}
for _word, _, _synonyms in (_line.partition(":") for _line in _TABLE.strip().splitlines()):
    MEANINGS |= {_synonym: (*MEANINGS.get(_synonym, ()), _word) for _synonym in _synonyms.split()}


def unknown_hint(key: Key, root: type[SpecModel]) -> str:
    """Return a hint for an unknown key: the key that was meant, its right place, or the known keys."""
    word, models = str(key[-1]), models_at(key[:-1], root)
    if key[0] == "stages" and len(key) == 3 and word in _OF_ENVIRONMENT:
        return f"write environments: {{NAME: {{{word}: …}}}} in the file, and environment: NAME here"
    if meant := meant_key(word, models):
        return f"did you mean '{meant}'?"
    far = _FAR.get(word, "") if len(key) == 1 else ""
    return _home_below(word, models) or far or f"keys here: {', '.join(_fields(models))}"


def meant_key(word: str, models: Sequence[type[SpecModel]]) -> str:
    """Return the key that a word means in these models; empty if none is close."""
    fields = _fields(models)
    if exact := next((meaning for meaning in _meanings(word) if meaning in fields), ""):
        return exact
    if _home_below(word, models):
        return ""
    match = re.search(r"'(.*)'", did_you_mean(_meanings(word)[0], fields))
    return match[1] if match else ""


def _meanings(word: str) -> tuple[str, ...]:
    lower = word.lower().replace("-", "_")
    return lower, *MEANINGS.get(lower, ())


def _home_below(word: str, models: Sequence[type[SpecModel]]) -> str:
    """Say where a key belongs one level down; empty if nowhere."""
    for label, info in _fields(models).items():
        for inner, named in _inner(info.annotation):
            # Below a user's own name only the exact word counts: similar words mean too many things.
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
    text = next((info.description for info in infos if info is not None and info.description), "")
    return f"{key[-1]}: {text}" if text else ""


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
        yield from _branches(next((note.model for note in notes if isinstance(note, StoredAs)), bare))
    elif get_origin(kind) in (Union, types.UnionType):
        for member in get_args(kind):
            yield from _branches(member)
    else:
        yield kind


def _inner(kind: Any) -> Iterator[tuple[type[SpecModel], bool]]:
    """Yield the models below a field, and whether each has a name of its own above it."""
    for branch in _branches(kind):
        named = get_origin(branch) is dict
        for inner in _branches(get_args(branch)[1]) if named else (branch,):
            if _is_model(inner):
                yield inner, named
