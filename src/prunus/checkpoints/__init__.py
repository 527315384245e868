"""The saved state of a run, its identity, and what a model file records of it."""
