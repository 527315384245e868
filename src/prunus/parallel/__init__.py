"""Training with several processes, on one machine or many, as if they were one."""
