"""Choose the 8-bit numbers of a model file, with images of its domains."""
