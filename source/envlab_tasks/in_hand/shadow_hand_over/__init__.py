"""Throw a ball from one hand into another: two agents that must act together."""
