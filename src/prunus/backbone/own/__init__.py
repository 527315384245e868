"""Networks that are not part of Prunus: registered by a package, or passed from Python."""
