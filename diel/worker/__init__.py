"""What runs in a worker process: bundles of tasks, one task at a time."""
