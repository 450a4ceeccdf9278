"""Populations that evolve, and SLM-Lab's specs, trials and sessions, over the core's learners."""
