"""Fixtures of this guest's tests."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def warp_compiles_in_a_hurry() -> None:
    """It does not: kernels that draw run longer than they compile."""
