"""Turn a cube in a hand to one orientation after another: Isaac Lab's direct tasks, and LEAP."""
