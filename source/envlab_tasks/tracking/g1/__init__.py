"""A humanoid that follows a motion: Unitree G1 with 29 joints, mjlab 1.6.0's tasks."""
