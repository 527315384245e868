"""The HTTP service around a model file, and its page."""
