"""Hands that turn objects."""
