"""What proposes the trials of a search."""
