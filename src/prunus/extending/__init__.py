"""Train a domain that is added to a model file, and continue such runs."""
