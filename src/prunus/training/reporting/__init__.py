"""What a run reports of itself: its progress, and what is wrong with it."""
