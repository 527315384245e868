"""What several alternatives need: a network with several heads, a training loop, export and cutting."""
