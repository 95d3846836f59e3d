"""The environments in which programs run: made once, kept by content, described for workers."""
