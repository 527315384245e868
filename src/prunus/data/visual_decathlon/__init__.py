"""The Visual Decathlon as it is distributed: its sets, their annotations and the file of results."""
