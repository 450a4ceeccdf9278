"""Training on several machines by ssh or Slurm: set up, launch, watch, command and stop."""
