"""What must happen before any test module is imported."""

# First, before torch: it sets OMP_WAIT_POLICY, which OpenMP reads when torch loads it.
import envlab.cli  # noqa: F401
