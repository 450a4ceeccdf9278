"""Stands in for ai2thor, whose Unity build is unavailable in tests."""
