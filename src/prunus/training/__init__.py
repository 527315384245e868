"""Learn all domains together: one loop, exactly resumable."""
