"""What `prunus versus` measures, and how ours compares."""
