"""A quadruped that gets up: MuJoCo Playground's Go1Getup."""
