"""Bring the hand of an arm to a pose in space."""
