"""The node's own disk: what tasks read is copied there once, however many tasks the node runs."""
