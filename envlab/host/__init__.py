"""Gymnasium's own environments, stepped on the host: in this process, or in workers.

Nothing here imports torch, so that a worker process starts in half a second.
"""
