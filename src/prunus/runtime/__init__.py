"""Run a model file."""
