"""One attempt of one task, in a worker: what it is given, how it is run and watched."""
