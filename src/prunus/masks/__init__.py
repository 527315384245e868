"""Switches, norms and heads of every domain around a frozen network."""
