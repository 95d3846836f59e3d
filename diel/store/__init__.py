"""What a run keeps on disk: journal, artifacts, cache, lease, times and the registry."""
