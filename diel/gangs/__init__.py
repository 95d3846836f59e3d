"""What stays up, or flows, beside the tasks that use it."""
