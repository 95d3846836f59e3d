"""The points of axes, and the tasks that they add up to."""
