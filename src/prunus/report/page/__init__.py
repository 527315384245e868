"""The report page: what is read of runs, the figures drawn from it, and the HTML around them."""
