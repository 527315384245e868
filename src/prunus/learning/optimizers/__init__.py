"""The optimizers of a step: torch's without its compiler, and Adam for switches."""
