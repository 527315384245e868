"""Learn one more domain inside a finished model file."""
