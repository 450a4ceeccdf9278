"""Trained policies, one folder each: ``TASK/LIBRARY/policy.pt`` with the run's manifest beside it.

``envlab play LIBRARY --task TASK --checkpoint pretrained`` finds them here, and in any package that
an entry point of the group ``envlab.policies`` names. scripts/documentation/policies.py packs runs.
"""
