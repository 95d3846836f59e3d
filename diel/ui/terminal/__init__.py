"""A run on a terminal: driven in the foreground, its bars while it runs, its summary at the end."""
