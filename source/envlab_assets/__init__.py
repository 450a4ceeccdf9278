"""Robots as MJCF, written for this project."""
