"""The way to workers: on this machine, or in blocks that a scheduler gives, by Parsl."""
