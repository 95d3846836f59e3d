"""The key or value that was meant, for a word in a file that no model knows.

Schedulers, launchers and other workflow tools name the same things differently; whoever comes from
one of them learns diel's word. The first word that is a key at the place in question is suggested.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from diel.errors import did_you_mean
from diel.load.nodes import Key
from diel.spec.model import SpecModel, WrittenAs

_KEYS: dict[str, str] = {
    # resources: schedulers, Parsl and MPI launchers
    "ranks": "ntasks n_tasks num_tasks procs nprocs num_procs processes np n mpiprocs mpi mpi_ranks "
    "num_ranks n_ranks nranks rank",
    "memory": "mem ram mem_mb mem_gb mem_per_node memory_mb memory_gb",
    "walltime": "time time_limit timelimit time_min wall_time wallclock wall_clock max_time runtime duration",
    "cores_per_rank": "ncpus cpus cpu num_cpus cpus_per_task cpus_per_rank threads nthreads num_threads "
    "threads_per_rank cores ncores core ompthreads omp_threads depth",
    "gpus_per_rank": "gpus gpu ngpus num_gpus n_gpus gres gpus_per_task accelerators",
    "nodes": "nnodes num_nodes n_nodes node node_count select hosts",
    "ranks_per_node": "ntasks_per_node tasks_per_node procs_per_node ppn processes_per_node npernode",
    "pool": "queue partition qos executor cluster host_pool",
    # stages
    "after": "depends depends_on dependencies dependson needs requires require wait_for upstream runs_after",
    "command": "cmd run script shell exec executable program bash line commands",
    "module": "function func task callable operator uses python entry_point app",
    "params": "parameters args arguments kwargs with config settings options params_",
    "env": "envs variables vars env_vars environ",
    "over": "foreach for_each matrix sweep axes axis with_items scatter expand each grid loop_over map",
    "retries": "retry max_retries maxretries retry_limit attempts restarts retry_strategy max_attempts tries "
    "error_strategy errorstrategy",
    "inputs": "input in data consumes takes reads",
    "outputs": "output out produces artifacts writes results",
    "when": "if condition only_if run_if unless active_if active conditions depends_on parent",
    "timeout": "time time_out kill_after deadline timelimit time_limit max_runtime active_deadline_seconds "
    "max_duration max_time time_budget walltime",
    "resources": "requirements requests limits directives sbatch cluster_options machine",
    "on": "on_failure on_error failure_policy failure_policies policies policy",
    "checkpoint": "checkpointing checkpoints restartable resumable requeue",
    "grace": "grace_period signal_before signal kill_grace warning_time",
    "files": "file assets stage_in inodes max_files",
    "description": "desc doc docs help comment about label title summary",
    # environments
    "environment": "container image conda venv virtualenv software runtime env_name",
    "environments": "envs containers software profiles",
    "python": "pip requirements venv virtualenv uv pip_requirements",
    "container": "singularity apptainer charliecloud podman shifter docker",
    "variables": "env envs vars environ",
    "modules": "module module_load envmodules lmod",
    "requirements": "file path packages",
    "image": "name file sif docker",
    "mounts": "mount bind binds volumes volume",
    # the whole file
    "stages": "steps step tasks jobs job rules nodes processes stage pipeline workflow dag",
    "hyperparameters": "hparams hyperparams hyperparameter hps hp params parameters variables vars config "
    "inputs",
    "axes": "axis sweep sweeps matrix foreach grid dimensions space search_space",
    "name": "title id workflow_name",
    "diel": "version api_version apiversion format",
    "include": "includes import imports subworkflow subworkflows use",
    "templates": "template defaults common anchors",
    # axes
    "values": "value list items choices points options grid_search",
    "linspace": "linear lin uniform_grid",
    "logspace": "geomspace log logarithmic",
    "range": "arange sequence count numbers start",
    "zip": "zipped together parallel pairs tuples",
    "file": "csv jsonl path table rows from_file",
    "sample": "lhs sobol random latin_hypercube design doe sampling samples",
    "from": "source derived dynamic from_stage input output stage src ref",
    "search": "optuna optimize optimise tune hpo bayes bayesian",
    "loop": "iterate iterations iteration while repeat cycle",
    # search and loop
    "trials": "n_trials num_trials max_trials num_samples budget iterations evaluations max_evals n_calls "
    "n_iter num_evaluations samples runs max",
    "parallel": "concurrency n_jobs workers max_concurrent max_concurrent_trials parallelism jobs "
    "trial_concurrency parallel_trials num_workers batch_size",
    "sampler": "algorithm algo method search_algorithm strategy search_alg optimizer suggest tuner type kind",
    "minimize": "minimise metric metrics objective objectives min goal loss direction directions mode target",
    "maximize": "maximise score reward",
    "pruner": "prune pruning scheduler early_stopping early_stop stopper assessor",
    "watch": "monitor report_metric intermediate pruning_metric monitored",
    "startup": "n_startup_trials n_initial_points startup_trials warmup n_startup random_trials num_initial "
    "warmup_steps n_warmup_steps",
    "population": "population_size pop_size popsize generation_size generation",
    "core_hours": "cpu_hours core_hour node_hours gpu_hours max_core_hours corehours",
    "until": "while stop stop_when condition converged break_when stop_if patience tolerance tol threshold "
    "convergence early_stopping stopping break stop_condition exit_when",
    "max": "iterations max_iterations maximum rounds limit n times max_iter max_rounds n_iter num_rounds "
    "n_rounds num_iterations n_iterations cycles generations epochs steps count trials",
    "seed": "random_state random_seed rng",
    "points": "n samples num_samples size count n_points n_samples",
    "method": "sampler type kind strategy algorithm",
    "parameters": "params space hyperparameters variables names search_space param_space over hparams",
    # hyperparameters and ranges
    "low": "min minimum lower lower_bound lb start from",
    "high": "max maximum upper upper_bound ub stop end to",
    "default": "value initial init",
    "log": "log_scale logscale logarithmic log_uniform loguniform scale prior",
    "choices": "values options enum categories categorical items",
    "type": "dtype kind",
    "step": "q stride increment",
    # inputs, outputs and retries
    "at": "select pick point index where",
    "min_success": "min_successes success_fraction tolerate threshold",
    "initially": "initial init default start first initial_value initial_values begin seed",
    "path": "file filename name location glob",
    "value": "type result parameter",
    "export": "exports publish publishdir publish_dir deliver copy_to copyto save_as link",
    "template": "source src from tmpl template_file jinja",
    "match": "regex regexp pattern re grep search",
    "column": "col field",
    "key": "jsonpath json_path query",
    "pick": "select which occurrence",
    "limit": "max count times attempts retries max_retries",
    "backoff": "delay wait interval back_off pause",
    # classes of failures, and their policies
    "app": "application error fail failure failed exit exit_code nonzero",
    "oom": "out_of_memory oomkill oom_kill oom_killed memory mem",
    "node": "node_fail node_failure node_failed lost worker host",
    "preempted": "preempt preemption revoked",
    "launch": "start spawn not_started boot_fail",
    "exclude": "exclude_node blacklist avoid drain",
    "columns": "cols fields parameters names header",
    # site files: what schedulers, Parsl, Nextflow, Snakemake and others call it
    "scheduler": "provider system resource_manager batch_system workload_manager lrms type kind",
    "extends": "extend base inherits inherit parent from include like template templates",
    "pools": "pool partitions partition queues queue executors executor nodes node_types machines hosts",
    "account": "project allocation bank charge_account account_name accounting project_name charge",
    "account_required": "requires_account needs_account",
    "launcher": "mpi mpirun mpiexec srun launch mpi_launcher mpi_command mpi_cmd",
    "spread": "node_launcher block_launcher",
    "setup": "worker_init modules module module_load load prologue init init_script pre preamble env",
    "options": "scheduler_options sbatch qsub sbatch_options qsub_options directives extra extra_options "
    "flags submit_options select_options cluster_options native_specification constraint",
    "address": "interface ip host hostname network",
    "poll": "interval poll_interval polling_interval status_polling_interval",
    "silence": "heartbeat heartbeat_threshold heartbeat_period",
    "filesystems": "filesystem file_systems file_system storage disks mounts",
    "queue": "partition queue_name partition_name",
    "cores": "cpus ncpus ntasks procs ppn cpu core processors cpus_per_node cores_per_node tasks_per_node "
    "ntasks_per_node max_workers",
    "gpus": "gpu ngpus gres gpus_per_node num_gpus accelerators available_accelerators devices",
    "gpu_variables": "gpu_variable visible_devices gpu_env device_variable",
    "blocks": "max_blocks jobs max_jobs num_blocks n_blocks init_blocks allocations",
    "block_nodes": "nodes_per_block nodes_per_job block_size",
    "max_walltime": "maxtime max_time_limit longest limit walltime_limit",
    "idle": "max_idletime idle_time idle_timeout idletime",
    "home": "where place location mode lives",
    "quota": "size limit space capacity",
    "purge": "retention lifetime expires deleted_after",
    "compute": "access on_nodes compute_nodes writable mode",
}

_VALUES: dict[str, str] = {
    "int": "integer long randint",
    "float": "double real number numeric uniform loguniform log_uniform quniform",
    "str": "string text",
    "bool": "boolean",
    "choice": "categorical enum",
    "list": "array",
    "dict": "object mapping",
    "simulation": "sim md",
    "training": "train learn",
    "inference": "infer predict",
    "analysis": "analyse analyze postprocess",
    "lhs": "latin_hypercube latin",
    "uniform": "random",
    "tpe": "bayesian optuna bayes parzen",
    "cmaes": "cma cma-es cma_es",
    "nsga2": "nsga nsga-ii nsga_ii nsgaii genetic",
    "gp": "gaussian_process gaussian-process bo",
    "qmc": "sobol halton quasi_random",
    "grid": "grid_search gridsearch",
    "random": "random_search",
    "asha": "sha successive_halving",
    "median": "median_stopping",
    "none": "off no",
    "podman": "docker",
    "charliecloud": "ch-run charlie",
    "job": "batch",
    "login": "detached",
    "write": "rw",
    "read": "ro read-only readonly",
}

_FAR = {
    "launcher": "a stage or a pool of a site chooses one: stages: {NAME: {resources: {launcher: …}}}",
    "launchers": "their words go into a site file: schedulers/NAME.yaml",
}
"""Where keys of a whole file go that are neither its own nor one level down."""

_OF_ENVIRONMENT = ("conda", "container", "modules", "setup", "spack")

KEYS: dict[str, tuple[str, ...]] = {}
for _word, _others in _KEYS.items():
    for _other in _others.split():
        KEYS[_other] = (*KEYS.get(_other, ()), _word)
VALUES = {other: word for word, others in _VALUES.items() for other in others.split()}


def unknown_hint(key: Key, root: type[SpecModel]) -> str:
    """What to do about an unknown key: the one that was meant, where it belongs, or the known keys."""
    word, models = str(key[-1]), models_at(key[:-1], root)
    if key[0] == "stages" and len(key) == 3 and word in _OF_ENVIRONMENT:
        return f"write environments: {{NAME: {{{word}: …}}}} in the file, and environment: NAME here"
    meant = meant_key(word, models, near=False)
    if meant:
        return f"did you mean '{meant}'?"
    below = _home_below(word, models)
    if below:
        return below
    if len(key) == 1 and word in _FAR:
        return _FAR[word]
    meant = meant_key(word, models)
    return f"did you mean '{meant}'?" if meant else f"keys here: {', '.join(_keys(models))}"


def meant_key(word: str, models: Sequence[type[SpecModel]], near: bool = True) -> str:
    """The key that a word means in these models; empty if none is close."""
    known = _keys(models)
    lower = word.lower().replace("-", "_")
    for other in (lower, *KEYS.get(lower, ())):
        if other in known:
            return other
    if not near or _home_below(word, models):
        return ""
    match = re.search(r"'(.*)'", did_you_mean(lower, known))
    return match.group(1) if match else ""


def _home_below(word: str, models: Sequence[type[SpecModel]]) -> str:
    """Where a key belongs one level down; empty if nowhere."""
    lower = word.lower().replace("-", "_")
    for model in models:
        for name, info in model.model_fields.items():
            label = info.alias or name
            for inner, named in _inner(info.annotation):
                keys = _keys([inner])
                # Below a user's own name only the exact word counts: others mean too many things.
                for other in (lower, *(() if named else KEYS.get(lower, ()))):
                    if other in keys:
                        holder = f"{label}.NAME" if named else label
                        example = f"{{NAME: {{{other}: …}}}}" if named else f"{{{other}: …}}"
                        return f"'{other}' goes under `{holder}`: write {label}: {example}"
    return ""


def _keys(models: Iterable[type[SpecModel]]) -> list[str]:
    return list(dict.fromkeys(i.alias or n for model in models for n, i in model.model_fields.items()))


def description(key: Key, root: type[SpecModel]) -> str:
    """The models' description of a key."""
    for model in models_at(key[:-1], root):
        for name, info in model.model_fields.items():
            if key[-1] in (name, info.alias) and info.description:
                return f"{key[-1]}: {info.description}"
    return ""


def models_at(key: Key, root: type[SpecModel]) -> list[type[SpecModel]]:
    """The models that can be at a key's path."""
    here: list[Any] = [root]
    for part in key:
        here = [child for one in here for child in _children(one, part)]
    return [one for one in here if isinstance(one, type) and issubclass(one, SpecModel)]


def _children(kind: Any, part: str | int) -> Iterator[Any]:
    if isinstance(kind, type) and issubclass(kind, SpecModel):
        for name, info in kind.model_fields.items():
            if part in (name, info.alias):
                yield from _branches(info.annotation)
    elif get_origin(kind) in (dict, tuple):
        arguments = get_args(kind)
        yield from _branches(arguments[1] if get_origin(kind) is dict else arguments[0])


def _branches(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Annotated:
        kept, *said = get_args(kind)
        yield from _branches(next((one.model for one in said if isinstance(one, WrittenAs)), kept))
    elif get_origin(kind) in (Union, types.UnionType):
        for each in get_args(kind):
            yield from _branches(each)
    else:
        yield kind


def _inner(kind: Any) -> Iterator[tuple[type[SpecModel], bool]]:
    """The models below a field, and whether each has a name of its own above it."""
    for branch in _branches(kind):
        if isinstance(branch, type) and issubclass(branch, SpecModel):
            yield branch, False
        elif get_origin(branch) is dict:
            for value in _branches(get_args(branch)[1]):
                if isinstance(value, type) and issubclass(value, SpecModel):
                    yield value, True
