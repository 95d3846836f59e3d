"""A run while it goes on, looked at in a terminal or in a browser: files are read, and nothing is written."""
