"""Fly a small quadcopter to a goal and hover."""
