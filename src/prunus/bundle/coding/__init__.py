"""Masks and indices as bytes."""
