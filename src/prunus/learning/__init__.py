"""One optimizer step, on any device: images, network, losses, rates and all the state that a step changes."""
