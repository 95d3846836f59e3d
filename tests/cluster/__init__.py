"""A real Slurm on one machine, to be thrown away: `make cluster`, or `python -m tests.cluster up`."""
