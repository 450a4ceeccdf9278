"""``envlab doctor``: what a machine, or the ranks of a launch, can do, and what is wrong."""
