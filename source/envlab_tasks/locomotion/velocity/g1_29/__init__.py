"""A humanoid that follows velocity commands: Unitree G1 with 29 joints, mjlab 1.6.0's tasks."""
