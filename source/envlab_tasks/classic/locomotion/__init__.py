"""Common part of Ant and Humanoid: run towards a far target along x."""
