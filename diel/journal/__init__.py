"""A run's history: append-only JSON lines, one writer a file, folded into a state.

A record is one JSON object with an `event`:

| event | written by | says |
|---|---|---|
| `controller` | controller | a controller took the run over: epoch, host, pid |
| `stage` | controller | a stage's tasks are known: total, kind, parts of the cache key |
| `queued` | controller | a bundle of tasks was handed to Parsl: stage, bundle, tasks, attempts |
| `cached` | controller | a task's result was found in an earlier run |
| `failed`, `skipped`, `cancelled` | controller | the verdict on tasks that have no result |
| `end` | controller | the run's state when its controller let go |
| `worker` | worker | a worker process began: host, pid |
| `start` | worker | an attempt began |
| `done` | worker | an attempt's result: **this line is the commit** |
| `fail` | worker | an attempt ended without a result: class, message |
| `release` | worker | tasks of a bundle that the worker will not run after all |
"""
