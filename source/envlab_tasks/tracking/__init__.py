"""Robots that follow recorded motions."""
