"""Typed results, and the numbers in them: costs, accuracies and scores."""
