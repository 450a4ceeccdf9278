"""The work of each of two ranks for this folder's tests, in one launch.

Usage: worker_pair.py FOLDER; it writes ``rank<i>.pt`` there, and runs of both kinds below it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils.data import DataLoader

from envlab.distributed.context import DistributedContext
from envlab.distributed.program import configure_logging
from envlab.training.launch import train as command
from envlab.training.preparation import prepare
from envlab_populations.agilerl.accelerator import make_accelerator
from envlab_populations.agilerl.memory import FIELDS, ReplayBuffer, ReplayDataset, Sampler
from envlab_populations.evolution import learner as module
from envlab_populations.evolution.replay import ReplayMemory
from envlab_populations.population.member import Member
from tests.learner_contract import digests
from tests.populations.evolution.populations import nursery
from tests.trained import only_run, session_of

DISCRETE = "--task=Isaac-Cartpole-Showcase-Box-Discrete-Direct-v0"
CONTINUOUS = "--task=Isaac-Cartpole-v0"
CREW = (
    "--task=gym:envlab_populations.crew:PettingZoo-v0",
    "env.kwargs.environment=tests.populations.evolution.meeting",
)
SMALL = [
    *("--headless", "--device=cpu", "--distributed", "--num_envs=8", "--population_size=4"),
    *("agent.num_steps_per_env=8", "agent.agent.batch_size=16", "agent.agent.learning_starts=2"),
    *("agent.population.generation_iterations=1", "agent.population.eval_episodes=2"),
    *("agent.memory.memory_size=4096", "env.episode_length_s=0.5"),
]
REPLAYED = ("agent.agent.", "agent.memory.", "agent.num_steps_per_env")
"""Settings that PPO lacks."""
ON_POLICY = "agent.agent.rollouts=8"
KINDS = ("architecture", "parameters", "activation", "rl_hp", "none")
BATCH = 64


def suited(*words: str) -> list[str]:
    """Return the words that the algorithm among them has a use for."""
    if "--algorithm=ppo" not in words:
        return list(words)
    return [*(word for word in words if not word.startswith(REPLAYED)), ON_POLICY]


def started(context: DistributedContext, words: list[str], iterations: int) -> Any:
    """Return a learner that is about to learn."""
    session = session_of("evolution", words)
    learner = prepare(session, context, session.library.load("build")).learner
    learner.start(iterations)
    return learner


def forced(context: DistributedContext, *flags: str, kinds: Sequence[str]) -> dict[str, Any]:
    """Return digests of the population after generations of one kind of mutation each."""
    words = suited(*flags, *SMALL)
    learner = started(context, words, len(kinds))
    found: dict[str, Any] = {"digests": [], "mutations": [], "played": []}
    evaluate = module.evaluate

    def watched(*arguments: Any, **named: Any) -> Any:
        played = evaluate(*arguments, **named)
        found["played"].append(played.returns.tolist())
        return played

    with mock.patch.object(module, "evaluate", watched):
        for number, kind in enumerate(kinds, 1):
            learner.mutations.odds = {name: float(name == kind) for name in KINDS}
            learner.iterate(number, lambda *_: None)
            found["digests"].append(digests(learner.model_state()))
            found["mutations"].append([member.mutation for member in learner.members])
    found["generations"] = learner.generations
    return found


def crews(context: DistributedContext) -> dict[str, Any]:
    """Return digests of a population of several agents each, after a generation."""
    words = [word for word in SMALL if not word.startswith("env.")]
    crew = ["--algorithm=maddpg", *CREW, *words, "env.num_workers=0"]
    learner = started(context, crew, 1)
    learner.iterate(1, lambda *_: None)
    state = learner.model_state()
    return {
        "digests": digests(state),
        "updates": [
            one["agent"]["counters"]["_update_counter"] for one in state["networks"].values()
        ],
        "saw": float(learner.nursery.memory.tensors["observations"].double().sum()),
    }


def batch(part: slice) -> list[torch.Tensor | None]:
    """Return some rows of a fixed batch, as a memory would."""
    generator = torch.Generator().manual_seed(11)
    obs, following = (torch.randn(BATCH, 5, generator=generator) for _ in range(2))
    actions = torch.randint(4, (BATCH, 1), generator=generator)
    rewards = torch.randn(BATCH, 1, generator=generator)
    ended = torch.rand(BATCH, 1, generator=generator) < 0.1
    parts = [obs, None, actions, rewards, following, None, ended]
    return [None if one is None else one[part] for one in parts]


def first_gradient(context: DistributedContext) -> dict[str, torch.Tensor]:
    """Return the gradient of a first update, of which each rank sees its share of the batch."""
    torch.manual_seed(0)
    wide = {"agent": {"grad_norm_clip": 1e9, "batch_size": BATCH}}
    member = Member.first(nursery("ddqn", context=context, values=wide), 0)
    size = BATCH // context.world_size
    own = slice(context.rank * size, (context.rank + 1) * size)
    with mock.patch.object(ReplayMemory, "sample", return_value=[batch(own)]):
        member.learner.agent.update(timestep=0, timesteps=1)
    return {name: p.grad.clone() for name, p in member.learner.policy.named_parameters()}


def sampled(context: DistributedContext) -> dict[str, torch.Tensor]:
    """Return batches from memories that hold the ranks' own numbers: ours, and Accelerate's."""
    memory = ReplayBuffer(64)
    memory.add(dict.fromkeys(FIELDS, np.full(2, float(context.rank))))
    dataset = ReplayDataset(memory, 8)
    loader = make_accelerator().prepare(DataLoader(dataset, batch_size=None))
    return {
        "own": Sampler(dataset=dataset, dataloader=loader).sample(6)["reward"].flatten(),
        "prepared": next(iter(loader))["reward"].flatten(),
    }


def gathered(context: DistributedContext) -> dict[str, torch.Tensor]:
    """Return the contents of a gathered memory after one step of each rank."""
    memory = ReplayMemory(64, 2, torch.device("cpu"), context)
    memory.create_tensor("rewards", size=1, dtype=torch.float32)
    memory.create_tensor("actions", size=1, dtype=torch.int64)
    rank = context.rank
    memory.add_samples(
        rewards=torch.tensor([[0.1 + rank], [0.2 + rank]]), actions=torch.tensor([[rank], [7]])
    )
    return {name: values[0].flatten() for name, values in memory.tensors.items()}


def train(context: DistributedContext, folder: Path, *flags: str) -> None:
    """Train in a folder, with an audit in each iteration; each rank loads its own part."""
    context.once(lambda: folder.mkdir(exist_ok=True, parents=True))
    os.chdir(folder)
    words = suited(*SMALL, "agent.audit_interval=1", "agent.save_interval=1", *flags)
    with (
        mock.patch.dict(os.environ),
        mock.patch.object(DistributedContext, "create", return_value=context),
        mock.patch.object(DistributedContext, "close", return_value=None),
    ):
        assert command("evolution", words) == 0


def members(context: DistributedContext, folder: Path) -> None:
    """Train members apart, through two tournaments, at once and with a resume in between."""
    words = [
        *(CONTINUOUS, "--algorithm=sac", "--parallel=members"),
        *("agent.population.generation_iterations=2", "agent.keep_checkpoints=0"),
    ]
    train(context, folder / "whole", *words, "--max_iterations=5")
    begun = only_run(folder / "whole") / "checkpoints/model_3.pt"
    resume = ["--max_iterations=5", "--resume", f"--checkpoint={begun}"]
    train(context, folder / "resumed", *words, *resume)


def main() -> None:
    folder = Path(sys.argv[1])
    context = DistributedContext.create(distributed=True, device="cpu")
    configure_logging(context.rank, context.world_size)
    found = {
        "dqn": forced(context, DISCRETE, "--algorithm=dqn", kinds=KINDS),
        "ppo": forced(context, CONTINUOUS, "--algorithm=ppo", kinds=KINDS[:1]),
        "sac": forced(context, CONTINUOUS, "--algorithm=sac", kinds=KINDS[:1]),
        "maddpg": crews(context),
        "sampled": sampled(context),
        "gradient": first_gradient(context),
        "gathered": gathered(context),
    }
    torch.save(found, folder / f"rank{context.rank}.pt")
    members(context, folder / "apart")
    context.close()


if __name__ == "__main__":
    main()
