"""A humanoid that gets up: Unitree G1 with 29 joints, by the rewards of Playground's Go1Getup."""
