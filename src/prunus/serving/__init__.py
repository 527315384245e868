"""The HTTP service for a model file, and its web page."""
