"""The runs of a project: how they are made and found, who drives them, users' requests."""
