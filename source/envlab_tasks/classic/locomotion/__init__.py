"""What Ant and Humanoid share: run towards a far target along x."""
