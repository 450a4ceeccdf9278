"""Small commands around the tasks: listing, stepping without a policy, warming kernels."""
