"""A site: where tasks run. A stage's resources must fit one of its pools."""
