"""The routes of the service, what they answer and how they refuse."""
