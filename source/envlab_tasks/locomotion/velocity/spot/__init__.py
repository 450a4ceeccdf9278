"""A quadruped that trots by velocity commands: Boston Dynamics Spot."""
