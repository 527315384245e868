"""Model files for other runtimes."""
