"""Grasp a cube, lift it, and bring it to a place."""
