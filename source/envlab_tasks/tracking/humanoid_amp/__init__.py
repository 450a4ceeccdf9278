"""A humanoid that moves in the style of a clip, by adversarial motion priors: Isaac Lab's tasks."""
