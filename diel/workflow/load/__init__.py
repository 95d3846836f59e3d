"""From a workflow's text to its spec, with every problem at its line and column."""

from diel.workflow.load.document import Document, examine, fit, load, load_text, parse, read_text
from diel.workflow.load.nodes import Source

__all__ = ["Document", "Source", "examine", "fit", "load", "load_text", "parse", "read_text"]
