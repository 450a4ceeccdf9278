"""Grasp the handle of a drawer and pull it open."""
