"""A first recipe, written after a look at folders of images."""
