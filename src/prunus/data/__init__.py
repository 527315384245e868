"""Domains on disk, as arrays of bytes, and in the order in which training sees them."""
