"""Errors, values, units, paths, files and states: what every district stands on."""
