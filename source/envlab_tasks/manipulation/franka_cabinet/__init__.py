"""Pull a drawer out: Isaac Lab's direct task."""
