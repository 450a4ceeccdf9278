"""Run on two legs towards a far target."""
