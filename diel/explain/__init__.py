"""Explanations of a run: what failed, what waits for what, what was computed again and why."""
