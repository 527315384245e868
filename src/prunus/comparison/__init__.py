"""What `compare` trains, and how its rows become a table."""
