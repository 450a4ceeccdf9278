"""A humanoid that follows velocity commands: Unitree G1."""
