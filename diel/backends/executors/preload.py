"""Imported by the server that the workers of a pool are forked from, before it forks any.

What is loaded by then lives as long as a worker does. Left out of garbage collection, its memory stays
shared: a collection would write to each object's header, and so give each worker a copy of all of it.
"""

import gc
import importlib
import logging

logging.raiseExceptions = False  # as in script.py
for _name in ("parsl.executors.high_throughput.process_worker_pool", "diel.worker.process"):
    importlib.import_module(_name)
gc.collect()
gc.freeze()
