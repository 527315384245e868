"""A network as a short list of operations, without torch, as model files store it and runtimes compute it."""
