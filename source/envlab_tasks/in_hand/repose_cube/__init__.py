"""Turn a cube in a hand to one orientation after another."""
