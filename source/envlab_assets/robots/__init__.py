"""One file a robot; each cites the source of its figures."""
