"""How the results of `prunus versus` are shown."""
