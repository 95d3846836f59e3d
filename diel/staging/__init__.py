"""The node's own disk: what tasks read is brought there once, however many tasks the node runs."""
