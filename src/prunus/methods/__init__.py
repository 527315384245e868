"""The methods that adapt a backbone to domains, in one table."""
