"""The run directory: its manifest, checkpoints and records, and comparing runs."""
