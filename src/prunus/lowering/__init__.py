"""From a trained network to the smallest thing that gives the same answers."""
