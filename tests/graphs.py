"""A GPU's graphs on a CPU: operations that are repeated at their original addresses."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from unittest import mock

import torch

from envlab.envs import VectorEnv
from envlab.sim.recordable import RepeatedOperations
from envlab.sim.recording import Recording


@contextlib.contextmanager
def capturable_on_a_cpu() -> Iterator[None]:
    """Let torch's optimizers keep all on a CPU's tensors, as they do on a GPU's.

    A GPU's stay as they are, for the tests that are marked ``gpu``.
    """
    name, yes = "_get_capturable_supported_devices", lambda *_, **__: ["cpu", "cuda"]
    adam, base = (sys.modules[f"torch.optim.{module}"] for module in ("adam", "optimizer"))
    with mock.patch.object(adam, name, yes), mock.patch.object(base, name, yes):
        yield


def assert_near(
    one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor], atol: float
) -> None:
    """Compare tensors by name, such as the parameters of two learners."""
    assert one.keys() == other.keys()
    for name, values in one.items():
        torch.testing.assert_close(values, other[name], rtol=0.0, atol=atol)


def record_steps(env: VectorEnv) -> Recording:
    """Have the steps of an environment on a CPU recorded, as ``env.graph=on`` does on a GPU."""
    return env.record_steps(lambda: RepeatedOperations, is_required=True)
