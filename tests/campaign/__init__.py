"""Kills everything that a run consists of, at random moments, and looks whether anything was lost, doubled or left."""
