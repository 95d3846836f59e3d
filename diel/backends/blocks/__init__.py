"""Where tasks run: this machine, or the blocks of a scheduler, and how bundles get there."""
