"""Runs beside each other: two of them, or all of a workflow."""
