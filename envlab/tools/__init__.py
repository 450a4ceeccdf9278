"""Small commands for tasks: listing, stepping without a policy, warming kernels."""
