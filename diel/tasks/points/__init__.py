"""The points of axes, and the tasks that they make."""
