"""Trained policies of navigation, as ``envlab_policies`` has those of other tasks."""
