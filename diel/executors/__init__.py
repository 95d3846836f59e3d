"""What runs bundles: the worker processes of this machine, and Parsl's executors in blocks."""
