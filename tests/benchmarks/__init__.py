"""Benchmarks: figures side by side, never a verdict."""
