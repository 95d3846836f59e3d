"""The workflow file as models, expressions and modules, and the graph of its stages."""
