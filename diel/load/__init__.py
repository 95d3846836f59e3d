"""From a workflow's text to its spec, with every problem at its line and column."""

from diel.load.document import Document, Source, examine, fit, load, load_text, parse, read_text

__all__ = ["Document", "Source", "examine", "fit", "load", "load_text", "parse", "read_text"]
