"""The saved state of a training run, its identity, and what a model file tells about it."""
