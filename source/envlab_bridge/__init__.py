"""Shared by the guests that run other projects' scripts: ranks, agreement, runners, errors.

:mod:`envlab_isaacgym` and :mod:`envlab_isaaclab` are above it, the core below.
"""
