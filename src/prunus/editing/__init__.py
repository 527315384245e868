"""Add, remove and replace domains of a model file; the answers of all other domains stay the same, bit by bit."""
