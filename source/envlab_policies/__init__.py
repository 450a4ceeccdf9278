"""Trained policies, one folder each: ``TASK/LIBRARY/policy.pt`` with the run's manifest.

``envlab play LIBRARY --task TASK --checkpoint pretrained`` finds them here, and in any package with
an entry point of the group ``envlab.policies``. scripts/documentation/results.py packs runs.
"""
