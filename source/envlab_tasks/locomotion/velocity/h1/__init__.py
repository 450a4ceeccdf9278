"""A humanoid that follows velocity commands: Unitree H1."""
