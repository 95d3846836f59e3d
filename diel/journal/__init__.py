"""A run's history: append-only JSON lines, one writer a file, folded into a state (see `records`)."""
