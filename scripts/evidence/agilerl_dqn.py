"""Train a population of DQNs with AgileRL 2.58.0 alone, as a contender of an experiment.

    AGILERL_PYTHON=$PWD/venv/bin/python python agilerl_dqn.py --task=gym:CartPole-v1 --seed=0 ...

AgileRL pins other packages than envlab, so it needs a separate environment, whose interpreter is
AGILERL_PYTHON (``pip install agilerl==2.58.0 peft Box2D``). Frames are those of training, of all
members; the rest is as in ``settings/agilerl_dqn.yaml``. It writes
``logs/agilerl/TASK/SEED/{run.json,metrics.jsonl}`` and ``played.json``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "settings" / "agilerl_dqn.yaml"
"""Settings in AgileRL's format."""
OTHER_STATES = 10_000
"""Added to the seed for the episodes to play."""


def train(file: dict[str, Any], name: str, seed: int, frames: int) -> tuple[Any, list[float]]:
    """Return the fittest member of the last generation, and its and its ancestors' fitness."""
    import numpy as np
    import torch
    from agilerl.algorithms.core.registry import HyperparameterConfig, RLParameter
    from agilerl.components.replay_buffer import ReplayBuffer
    from agilerl.hpo.mutation import Mutations
    from agilerl.hpo.tournament import TournamentSelection
    from agilerl.training.train_off_policy import train_off_policy
    from agilerl.utils.utils import create_population, make_vect_envs

    class Judged(TournamentSelection):
        """Keeps the fittest as it was judged: AgileRL mutates its elite, also the saved one."""

        fittest: Any

        def select(self, population: list[Any]) -> tuple[Any, list[Any], list[int] | None]:
            chosen = super().select(population)
            self.fittest = chosen[0].clone()
            return chosen

    torch.set_num_threads(1)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    settings, mutation, training = file["algorithm"], file["mutation"], file["training"]
    num_envs, population = file["environment"]["num_envs"], training["pop_size"]
    odds, bounds = mutation["probabilities"], mutation["rl_hp_selection"]
    env = make_vect_envs(name, num_envs=num_envs, should_async_vector=False)
    env.reset(seed=seed)
    evolving = HyperparameterConfig(
        lr=RLParameter(**bounds["lr"]),
        batch_size=RLParameter(**bounds["batch_size"], dtype=int),
        learn_step=RLParameter(
            **bounds["learn_step"], dtype=int, grow_factor=1.5, shrink_factor=0.75
        ),
    )
    members = create_population(
        algo=settings["name"],
        net_config=file["network"],
        INIT_HP={key.upper(): value for key, value in settings.items()},
        observation_space=env.single_observation_space,
        action_space=env.single_action_space,
        hp_config=evolving,
        population_size=population,
        num_envs=num_envs,
    )
    for member in members:
        member.action_space.seed(seed)
    tournament = Judged(
        file["selection_strategy"]["tournament_size"],
        elitism=file["selection_strategy"]["elitism"],
        population_size=population,
    )
    train_off_policy(
        env=env,
        env_name=name,
        algo=settings["name"],
        pop=members,
        memory=ReplayBuffer(max_size=file["replay_buffer"]["max_size"]),
        max_steps=frames // population,
        evo_steps=min(training["evo_steps"], frames // population),
        eps_start=training["eps_start"],
        eps_end=training["eps_end"],
        eps_decay=training["eps_decay"],
        eval_loop=training["eval_loop"],
        selection_strategy=tournament,
        mutation=Mutations(
            no_mutation=odds["no_mut"],
            architecture=odds["arch_mut"],
            new_layer_prob=odds["new_layer"],
            parameters=odds["params_mut"],
            activation=odds["act_mut"],
            rl_hp=odds["rl_hp_mut"],
            mutation_sd=mutation["mutation_sd"],
            rand_seed=seed,
        ),
        verbose=False,
    )
    best = tournament.fittest
    return best, [float(value) for value in best.fitness]


def play(member: Any, name: str, seed: int, num_episodes: int) -> float:
    """Return the mean return of episodes without exploration."""
    import gymnasium

    env = gymnasium.make(name)
    total = 0.0
    for episode in range(num_episodes):
        observation, _ = env.reset(seed=seed + OTHER_STATES if episode == 0 else None)
        is_over = False
        while not is_over:
            action = int(member.get_action(observation[None], epsilon=0.0).item())
            observation, reward, terminated, truncated, _ = env.step(action)
            total += float(reward)
            is_over = terminated or truncated
    return total / num_episodes


def main() -> None:
    """Train, play, and write what an experiment records."""
    if importlib.util.find_spec("agilerl") is None:
        if not (python := os.environ.get("AGILERL_PYTHON")):
            raise SystemExit(
                "AgileRL is not installed here. Install agilerl==2.58.0 and peft into a separate "
                "environment, and give its interpreter as AGILERL_PYTHON."
            )
        os.environ.pop("PYTHONPATH", None)
        os.execv(python, [python, *sys.argv])
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", required=True, help="gym:ID, of discrete actions")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--max_frames", type=float, required=True)
    parser.add_argument("--num_episodes", type=int, required=True)
    flags = parser.parse_args()
    import yaml

    file = yaml.safe_load(FILE.read_text())
    num_envs = file["environment"]["num_envs"]
    name, frames = flags.task.removeprefix("gym:"), int(flags.max_frames)
    folder = Path("logs/agilerl") / name / str(flags.seed)
    folder.mkdir(parents=True, exist_ok=True)
    begun, start = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    best, fitness = train(file, name, flags.seed, frames)
    wall_s = time.perf_counter() - start
    lines = [
        {
            "iteration": number,
            "frames": frames * number // len(fitness),
            "wall_s": round(wall_s * number / len(fitness), 1),
            "mean_return": value,
        }
        for number, value in enumerate(fitness, start=1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    played = play(best, name, flags.seed, flags.num_episodes)
    values = {"num_episodes": flags.num_episodes, "return": played}
    Path("played.json").write_text(json.dumps(values, indent=2) + "\n")
    packages = [importlib.import_module(module) for module in ("torch", "gymnasium", "numpy")]
    versions = {package.__name__: package.__version__ for package in packages}
    manifest = {
        "version": 1,
        "task": flags.task,
        "library": "agilerl",
        "algorithm": "DQN",
        "seed": flags.seed,
        "created_at": begun,
        "status": "finished",
        "num_envs": num_envs,
        "global_num_envs": num_envs,
        "versions": versions | {"agilerl": importlib.metadata.version("agilerl")},
    }
    (folder / "run.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
