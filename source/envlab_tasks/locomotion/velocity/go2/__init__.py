"""A quadruped that follows velocity commands: Unitree Go2."""
