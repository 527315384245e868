"""A recipe's budget as whole numbers, and the choice of switches that keeps it."""
