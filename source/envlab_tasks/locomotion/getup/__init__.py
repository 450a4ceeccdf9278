"""Get up after a fall."""
