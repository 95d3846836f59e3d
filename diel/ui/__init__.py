"""Faces of a run: terminal, live screen, page and notebook."""
