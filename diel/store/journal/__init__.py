"""A run's history: append-only JSON lines, one writer for each file, folded into a state (see `records`)."""
