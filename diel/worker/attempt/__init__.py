"""One attempt of one task, in a worker: its inputs, how it is run and watched."""
