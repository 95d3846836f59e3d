"""Schedulers: job scripts, states and answers of Slurm, PBS and Torque. Nothing here imports Parsl."""
