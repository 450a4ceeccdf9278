"""JAX next to torch in the same process."""

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
from envlab.skrl.jax.ranks import start_jax
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
try:
    start_jax(DistributedContext(device=torch.device("cuda", 0)))
except DeviceError as error:
    print(error)
"""


@pytest.mark.long
def test_jax_gets_the_contexts_threads_on_the_cpu_whatever_the_user_set_and_no_gpu_is_a_sentence():
    environment = {**os.environ, "JAX_PLATFORMS": "cuda"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    num_threads, sentence = done.stdout.splitlines()
    assert int(num_threads) == 3
    assert sentence.startswith("The device is cuda:0, but JAX ")
    assert "use --device cpu." in sentence
