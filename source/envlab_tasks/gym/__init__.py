"""Agents for Gymnasium's environments, ``gym:<id>``, which register themselves."""
