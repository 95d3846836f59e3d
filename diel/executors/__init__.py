"""Where bundles run: Parsl's executors, in one file."""
