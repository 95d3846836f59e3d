"""Imported last by the server that workers fork from.

What is loaded by then lives as long as a worker does. Left out of garbage collection, its memory stays
shared: a collection would write to each object's header, and so give each worker a copy of all of it.
"""

import gc

gc.collect()
gc.freeze()
