"""What a model costs and how well it does."""
