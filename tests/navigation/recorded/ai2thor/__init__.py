"""Stands in for ai2thor, whose Unity build cannot be had in tests."""
