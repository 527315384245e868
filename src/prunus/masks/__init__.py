"""Kernel switches, per-domain norms and heads around a frozen network."""
