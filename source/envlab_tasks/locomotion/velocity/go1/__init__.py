"""A quadruped that follows velocity commands: Unitree Go1, Isaac Lab's tasks and mjlab 1.6.0's."""
