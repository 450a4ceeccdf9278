"""How the tests of skrl on JAX train: small, and with JAX's compiler in a hurry."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import psutil

from tests.agents import ADDRESS, free_port
from tests.launcher import ROOT, Launch

TRAIN = ROOT / "scripts/reinforcement_learning/skrl/train.py"
TASK = "--task=Isaac-Cartpole-v0"
FRAMEWORK = ["--device=cpu", "--ml_framework=jax"]
NETWORKS = [
    f"agent.models.{role}.network=[{{name:net,input:OBSERVATIONS,layers:[16],activations:elu}}]"
    for role in ("policy", "value")
]
SCALERS = [
    "agent.agent.observation_preprocessor=RunningStandardScaler",
    "agent.agent.value_preprocessor=RunningStandardScaler",
]
# Everything that must stay equal: normalisers, an adaptive learning rate, resets.
PPO = [
    *(TASK, *FRAMEWORK, "--num_envs=32", "agent.save_interval=2", *NETWORKS, *SCALERS),
    *("agent.agent.learning_epochs=4", "agent.agent.mini_batches=4"),
    "agent.agent.time_limit_bootstrap=true",
]
SAC = [
    *(TASK, *FRAMEWORK, "--algorithm=sac", "--num_envs=32", "agent.save_interval=1", SCALERS[0]),
    *("agent.num_steps_per_env=8", "agent.agent.gradient_steps=2"),
    *("agent.agent.learning_starts=2", "agent.memory.memory_size=32"),
]


@contextlib.contextmanager
def compiled_quickly(folder: Path) -> Iterator[None]:
    """Have JAX compile without optimisation, and each program once for all processes.

    All of them run the same compiled programs, so results stay comparable bit by bit.
    """
    settings = {
        "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    logging.getLogger("jax").setLevel(logging.ERROR)
    try:
        yield
    finally:
        jax.config.update("jax_compilation_cache_dir", None)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def skrl_launch(num_processes: int, script: Path, *arguments: str | Path) -> list[str | Path]:
    """Return the command by which skrl starts a script on several local processes."""
    address = f"{ADDRESS}:{free_port()}"
    launcher = [sys.executable, "-m", "skrl.utils.distributed.jax", "--nnodes=1"]
    place = [f"--nproc_per_node={num_processes}", f"--coordinator_address={address}"]
    return [*launcher, *place, script, *arguments]


def youngest(launch: Launch, rank: int) -> int:
    """Return a rank's process that started last: the worker, started by its supervisor."""
    found = [pid for pid, other in launch.living().items() if other == rank]
    return max(found, key=lambda pid: psutil.Process(pid).create_time())
