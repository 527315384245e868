"""Batches of requests, computed outside the event loop."""
