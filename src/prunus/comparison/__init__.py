"""What `compare` and `sweep` train, how the trials are run, and how their results become a table."""
