"""What a run tells people who are not looking: when, in which words, and the process that sends it."""
