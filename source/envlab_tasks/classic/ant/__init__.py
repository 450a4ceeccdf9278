"""Run on four legs towards a far target."""
