"""Domains on disk, as arrays, and in the order in which training sees them."""
