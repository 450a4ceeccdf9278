"""Adapters of the RL libraries, one file a library, and what they share."""
