"""A graph as torch modules: to train it, to export it, to check other engines with."""
