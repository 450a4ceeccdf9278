"""From a command line to the training loop, and from a run to play and export."""
