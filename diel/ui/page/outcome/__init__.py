"""What came of a run, as panels: results, searches, loops, data in motion, failures, files, origin."""
