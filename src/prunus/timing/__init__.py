"""What `bench` runs: a model file, the dense network and other engines."""
