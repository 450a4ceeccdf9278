"""What two guests share: others' scripts, and ``--config_kwargs`` of AllenAct's experiments.

The guests are above it, the core below.
"""
