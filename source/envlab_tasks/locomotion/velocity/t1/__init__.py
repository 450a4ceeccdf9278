"""A humanoid that follows velocity commands: Booster T1, by MuJoCo Playground's joystick task."""
