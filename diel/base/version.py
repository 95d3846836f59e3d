"""The version of diel."""

__version__ = "0.1.0"
