"""What two guests share: ranks, agreement, runners and errors of other projects' scripts, and
``--config_kwargs`` of AllenAct's experiments.

The guests are above it, the core below.
"""
