"""Gymnasium's own environments, stepped on the host: here, or in worker processes.

Nothing here imports torch, so that a worker process starts in half a second.
"""
