"""What one task reads and becomes: its recipe, key and results, and the edges that it waits for."""
