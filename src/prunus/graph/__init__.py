"""A network as a short list of operations, without torch: what travels in a model file and what runtimes compute."""
