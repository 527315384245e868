"""The progress of training runs, in a terminal, in a notebook and in a log."""
