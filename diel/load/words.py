"""Other tools' words for what diel's keys and values mean.

Schedulers, launchers and other workflow tools name the same things differently; whoever comes from
one of them is told diel's word. The first word that is a key at the place in question is suggested.
"""

from __future__ import annotations

_KEYS: dict[str, str] = {
    # resources: Slurm, PBS, Flux, Parsl and MPI launchers
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
    "env": "environment envs variables vars env_vars environ",
    "over": "foreach for_each matrix sweep axes axis with_items scatter expand each grid loop_over map",
    "retries": "retry max_retries retry_limit attempts restarts retry_strategy max_attempts tries",
    "inputs": "input in data consumes takes reads",
    "outputs": "output out produces artifacts writes results",
    "when": "if condition only_if run_if unless",
    "timeout": "time time_out kill_after deadline timelimit time_limit max_runtime active_deadline_seconds",
    "resources": "requirements requests limits directives sbatch cluster_options machine",
    "files": "file assets stage_in",
    "description": "desc doc docs help comment about label title summary",
    # the whole file
    "stages": "steps step tasks jobs job rules nodes processes stage pipeline workflow dag",
    "hyperparameters": "hparams hyperparams hyperparameter hps hp params parameters variables vars config "
    "inputs",
    "axes": "axis sweep sweeps matrix foreach grid dimensions space search_space",
    "name": "title id workflow_name",
    "diel": "version api_version apiversion format",
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
    "trials": "n_trials num_trials max_trials num_samples budget iterations evaluations",
    "parallel": "concurrency n_jobs workers max_concurrent max_concurrent_trials parallelism jobs",
    "sampler": "algorithm algo method search_algorithm strategy search_alg optimizer",
    "minimize": "minimise metric objective min goal loss",
    "maximize": "maximise max",
    "pruner": "prune pruning scheduler early_stopping",
    "until": "while stop stop_when condition converged break_when stop_if",
    "max": "iterations max_iterations maximum rounds limit n times max_iter",
    "seed": "random_state random_seed rng",
    "points": "n samples num_samples size count n_points n_samples",
    "method": "sampler type kind strategy algorithm",
    "parameters": "params space hyperparameters variables names",
    # hyperparameters and ranges
    "low": "min minimum lower lower_bound lb start from",
    "high": "max maximum upper upper_bound ub stop end to",
    "default": "value initial init",
    "log": "log_scale logscale logarithmic log_uniform loguniform",
    "choices": "values options enum categories categorical items",
    "type": "dtype kind",
    "step": "q stride increment",
    # inputs, outputs and retries
    "at": "select pick point index where",
    "min_success": "min_successes success_fraction tolerate threshold",
    "initially": "initial init default start first",
    "path": "file filename name location glob",
    "value": "type result parameter",
    "limit": "max count times attempts retries max_retries",
    "backoff": "delay wait interval back_off pause",
    "columns": "cols fields parameters names header",
}

KEYS: dict[str, tuple[str, ...]] = {}
for _word, _others in _KEYS.items():
    for _other in _others.split():
        KEYS[_other] = (*KEYS.get(_other, ()), _word)

VALUES: dict[str, str] = {
    "integer": "int",
    "long": "int",
    "double": "float",
    "real": "float",
    "number": "float",
    "numeric": "float",
    "string": "str",
    "text": "str",
    "boolean": "bool",
    "categorical": "choice",
    "enum": "choice",
    "array": "list",
    "object": "dict",
    "mapping": "dict",
    "sim": "simulation",
    "md": "simulation",
    "train": "training",
    "learn": "training",
    "infer": "inference",
    "predict": "inference",
    "analyse": "analysis",
    "analyze": "analysis",
    "postprocess": "analysis",
    "latin_hypercube": "lhs",
    "latin": "lhs",
    "random": "uniform",
    "bayesian": "tpe",
    "optuna": "tpe",
    "cma": "cmaes",
    "cma-es": "cmaes",
    "nsga": "nsga2",
    "gaussian_process": "gp",
    "asha": "hyperband",
}
