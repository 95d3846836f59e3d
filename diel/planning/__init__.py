"""What a workflow will do, and whether it can: every check before the first task."""
