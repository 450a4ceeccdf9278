"""What each way to train learns in five iterations on two ranks, and the way to record it.

``values/libraries`` has for each its frozen configuration, ``<name>.yaml``, which changes of
defaults leave alone, and ``<name>.json``: the metrics of each iteration and the trained policy's
actions, with the tolerance for other kinds of processor, and digests of both by kind.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

import envlab
from envlab.cli import main as envlab_command
from tests.golden.kind import kind_of_processor
from tests.launcher import run, torchrun
from tests.trained import metrics_of, only_run

FOLDER = Path(__file__).with_name("values") / "libraries"
WORKER = Path(__file__).with_name("worker_trainings.py")
NUM_ITERATIONS = 5
LEAST_TOLERANCE = 1e-4
FLAGS = ("--headless", "--device=cpu", "--distributed")
_TIMES = ("wall_s", "fps", "collect_s", "learn_s")
_CARTPOLE = ("--task=Isaac-Cartpole-v0", "--num_envs=4", "--seed=7")
_SMALL = ("agent.actor.hidden_dims=[8]", "agent.critic.hidden_dims=[8]")
_Q = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
WAYS: dict[str, tuple[str, ...]] = {
    "rsl_rl": (
        *("rsl_rl", *_CARTPOLE, *_SMALL),
        *("agent.actor.obs_normalization=true", "agent.critic.obs_normalization=true"),
    ),
    "rl_games": (
        *("rl_games", *_CARTPOLE, "agent.params.network.mlp.units=[8]"),
        *("agent.params.config.normalize_input=true", "agent.params.config.normalize_value=true"),
        "agent.params.config.minibatch_size=32",
    ),
    "skrl_ppo": (
        *("skrl", *_CARTPOLE),
        *(f"agent.models.{role}.network.0.layers=[8]" for role in ("policy", "value")),
        "agent.agent.observation_preprocessor=RunningStandardScaler",
        "agent.agent.value_preprocessor=RunningStandardScaler",
    ),
    "skrl_sac": (
        *("skrl", "--algorithm=sac", *_CARTPOLE, "agent.num_steps_per_env=8"),
        *("agent.memory.memory_size=32", "agent.agent.batch_size=16"),
        *("agent.agent.learning_starts=4", "agent.agent.random_timesteps=4"),
        *(f"agent.models.{role}.network.0.layers=[8]" for role in ("policy", *_Q)),
    ),
    "skrl_ippo": (
        *("skrl", "--algorithm=ippo", "--task=Isaac-Cart-Double-Pendulum-Direct-v0"),
        *("--num_envs=4", "--seed=7"),
    ),
    "fast_sac": (
        *("fast_sac", *_CARTPOLE, *_SMALL),
        *("agent.replay.size=64", "agent.algorithm.batch_size=32"),
    ),
    "ddppo": (
        *("ddppo", "--task=gym:CartPole-v1", "--num_envs=4", "--seed=7"),
        *("agent.num_steps_per_env=16", "agent.precision=float32"),
        *("agent.model.vector_dims=[8]", "agent.model.hidden_dim=8"),
    ),
    "evolution": (
        *("evolution", "--algorithm=dqn", "--task=gym:CartPole-v1", "--num_envs=4", "--seed=7"),
        *("--population_size=2", "agent.network.hidden_dims=[8]", "agent.memory.memory_size=64"),
    ),
    "population": (
        *("rsl_rl", "--population_size=2", *_CARTPOLE, *_SMALL, "agent.algorithm.schedule=fixed"),
        "population.ranges.agent.algorithm.learning_rate=[1e-4,1e-2]",
    ),
}
"""By name, a library and the words of its frozen configuration.

skrl on JAX has the numbers of skrl on PyTorch in ``tests/skrl/jax``; the sessions of Hogwild! take
turns by chance.
"""


def freeze(name: str) -> None:
    """Write the configuration that a way's words make today."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        code = envlab_command(["config", *WAYS[name]])
    assert code == 0, name
    (FOLDER / f"{name}.yaml").write_text(text.getvalue())


def words_of(name: str) -> list[str]:
    """Return the words that train a way's frozen configuration."""
    chosen = [word for word in WAYS[name] if word.startswith("--")]
    return [*FLAGS, *chosen, f"--config={FOLDER / name}.yaml", f"--max_iterations={NUM_ITERATIONS}"]


def launch(
    folder: Path,
    jobs: Iterable[tuple[str, str, Sequence[str]]],
    *,
    worker: Path = WORKER,
    num_ranks: int = 2,
) -> str:
    """Train on several ranks in one launch; return its output.

    Args:
        folder: Where each job gets a folder of its name.
        jobs: Their names, libraries and words.
        worker: The script that trains.
        num_ranks: Number of ranks.
    """
    asked = []
    for name, library, words in jobs:
        (folder / name).mkdir(exist_ok=True)
        asked.append((str(folder / name), library, list(words)))
    path = folder / "jobs.json"
    path.write_text(json.dumps(asked))
    code, output = run(torchrun(num_ranks, worker, path), folder, deadline_s=280.0)
    assert code == 0, output
    return output


def train_all(folder: Path, names: Iterable[str] = WAYS) -> dict[str, dict[str, Any]]:
    """Return what ways have learned, by default all."""
    launch(folder, ((name, WAYS[name][0], words_of(name)) for name in names))
    return {name: learned(only_run(folder / name)) for name in names}


def learned(directory: Path) -> dict[str, Any]:
    """Return a run's metrics of each iteration, and its policy's actions of two steps."""
    metrics = [
        {name: value for name, value in record.items() if name not in _TIMES}
        for record in metrics_of(directory)
    ]
    policy = envlab.load_policy(directory, num_envs=2, device="cpu", seed=3)
    obs, _ = policy.env.reset(seed=3)
    actions = []
    for _ in range(2):
        action = policy(obs)
        parts = action.values() if isinstance(action, dict) else [action]
        actions.append(torch.cat([part.double().reshape(2, -1) for part in parts], 1).tolist())
        obs, *_ = policy.env.step(action)
    policy.env.close()
    return {"metrics": metrics, "actions": actions}


def digest_of(values: dict[str, Any]) -> str:
    """Return a digest of all numbers, to their last bit."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def difference(old: Any, new: Any) -> float:
    """Return the largest difference of numbers, relative to those of more than 1."""
    if isinstance(old, dict) and isinstance(new, dict):
        shared = zip(old.values(), (new.get(name) for name in old), strict=True)
        return math.inf if old.keys() != new.keys() else _largest(shared)
    if isinstance(old, list) and isinstance(new, list):
        return math.inf if len(old) != len(new) else _largest(zip(old, new, strict=True))
    if not isinstance(old, int | float) or not isinstance(new, int | float):
        return 0.0 if old == new else math.inf
    return abs(old - new) / max(1.0, abs(old))


def _largest(pairs: Iterable[tuple[Any, Any]]) -> float:
    return max((difference(*pair) for pair in pairs), default=0.0)


def read(name: str) -> dict[str, Any]:
    """Return what was recorded of a way; empty without a recording."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _differences_on_plain_processors(found: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return by way what torch's kernels for the plainest processors change."""
    with tempfile.TemporaryDirectory() as folder:
        code = (
            "import json, pathlib, sys; from tests.golden.libraries import *;"
            "path = pathlib.Path(sys.argv[1]);"
            "(path / 'found.json').write_text(json.dumps(train_all(path)))"
        )
        environment = {**os.environ, "ATEN_CPU_CAPABILITY": "default"}
        subprocess.run([sys.executable, "-c", code, folder], check=True, env=environment)
        others = json.loads((Path(folder) / "found.json").read_text())
    return {name: difference(values, others[name]) for name, values in found.items()}


def record() -> None:
    """Record all ways, and print how far they are from what was recorded."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in WAYS:
        if not (FOLDER / f"{name}.yaml").exists():
            freeze(name)
    with tempfile.TemporaryDirectory() as folder:
        found = train_all(Path(folder))
    plain = _differences_on_plain_processors(found)
    kind = kind_of_processor()
    for name, values in found.items():
        old = read(name)
        apart = difference(old["values"], values) if old else 0.0
        is_same = bool(old) and apart <= old["tolerance"]
        digests = {**(old["digests"] if is_same else {}), kind: digest_of(values)}
        if not is_same:
            old = {"tolerance": max(LEAST_TOLERANCE, 10.0 * plain[name]), "values": values}
        text = json.dumps({**old, "digests": digests}, indent=1)
        (FOLDER / f"{name}.json").write_text(text + "\n")
        print(f"{name}: largest difference {apart:.3g}")
