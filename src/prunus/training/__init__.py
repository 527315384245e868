"""Train all domains together: one loop that resumes exactly."""
