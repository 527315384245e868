"""The ways to adapt a backbone to domains, in one table."""
