"""JAX compiles in a hurry in all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module", autouse=True)
def quick(compiled: Path) -> Iterator[None]:
    from tests.skrl.jax.runs import compiled_quickly  # only now: JAX may be missing

    with compiled_quickly(compiled):
        yield
