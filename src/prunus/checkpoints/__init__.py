"""The saved state of a training run, its identity, and what a model file records of it."""
