"""JAX next to torch in one of our processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("jax", reason="needs jax: pip install -e '.[jax]'")

PROGRAM = """
import os
from contextlib import suppress
from pathlib import Path
import torch
from envlab.distributed.context import DistributedContext
from envlab.distributed.jax_process import start_jax
from envlab.errors import DeviceError
before = dict(os.environ)
context = DistributedContext(num_threads=3)
device = start_jax(context)
assert device.platform == "cpu", device
assert dict(os.environ) == before
import jax, jax.numpy as jnp
jnp.ones((4, 4)).block_until_ready()
names = []
for task in Path("/proc/self/task").iterdir():
    with suppress(OSError):  # a thread that has ended since
        names.append(task.joinpath("comm").read_text())
print(sum("Eigen" in name for name in names))
"""
ON_A_GPU = """
import torch
from envlab.distributed.context import DistributedContext
from envlab.distributed.jax_process import start_jax
from envlab.errors import DeviceError
try:
    start_jax(DistributedContext(device=torch.device("cuda", 0)))
except DeviceError as error:
    print(error)
"""


def run(program: str, **variables: str) -> str:
    environment = {**os.environ, **variables}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_jax_gets_the_contexts_threads_on_the_cpu_whatever_the_user_set():
    assert int(run(PROGRAM, JAX_PLATFORMS="cuda")) == 3


def test_a_gpu_that_jax_cannot_use_is_one_sentence():
    text = run(ON_A_GPU)
    if not text:
        pytest.skip("needs a machine without a GPU")
    assert text.startswith("The device is cuda:0, but JAX ")
    assert "use --device cpu." in text
    assert text.count("\n") == 1
