"""Which torch operation becomes which operation of a graph."""
