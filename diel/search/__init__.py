"""What makes the points of a search or a loop while its run goes on, and what proposes trials."""
