"""A run in the formats of other tools, written by their own libraries: one file for each tool."""

from diel.takeout.tool import TOOLS, take_out

__all__ = ["TOOLS", "take_out"]
