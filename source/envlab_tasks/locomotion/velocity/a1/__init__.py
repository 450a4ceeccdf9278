"""legged_gym's A1 on a plane, as a task of envlab: the example of docs/from_legged_gym.md."""
