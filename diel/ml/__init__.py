"""Training for modules: PyTorch, and columns of numbers."""
