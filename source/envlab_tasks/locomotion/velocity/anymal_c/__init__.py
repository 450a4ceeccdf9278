"""A quadruped that follows velocity commands: ANYbotics ANYmal C."""
