"""A quadruped that follows velocity commands: Unitree A1, by Isaac Lab and by legged_gym."""
