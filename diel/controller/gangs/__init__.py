"""What stays up beside the tasks that use it."""
