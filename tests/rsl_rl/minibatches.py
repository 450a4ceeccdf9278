"""PPO's first update where one rank earns 1 in each step and the other 100."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.distributed.seeding import seed_everything
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.rsl_rl.learner import RslRlLearner
from tests.rsl_rl.first_update import captured
from tests.scripted import ScriptedEnv

REWARDS = ((1.0, 1.0), (100.0, 100.0))
"""Of each rank's environments."""
KINDS = {"feedforward": {}, "recurrent": {"class_name": "RNNModel", "rnn_type": "gru"}}
AGENT = {
    "num_steps_per_env": 4,
    # One step on all data; clipping would only rescale the gradients.
    "algorithm": {
        "normalize_advantage_per_mini_batch": True,
        "num_learning_epochs": 1,
        "num_mini_batches": 1,
        "max_grad_norm": 1e9,
    },
}


class PayingEnv(ScriptedEnv):
    """Each environment pays its own reward in each step."""

    def __init__(self, rewards: Sequence[float]) -> None:
        self._paid = torch.tensor(rewards)
        super().__init__((0.5,), num_envs=len(rewards))

    def _get_rewards(self) -> torch.Tensor:
        return self._paid.clone()


def paid_update(
    context: DistributedContext, rewards: Sequence[float], kind: str
) -> dict[str, torch.Tensor]:
    """Return the gradients before the optimizer's first step.

    Actions that pay more are above their mean, the others below it: how environments are spread
    over ranks changes nothing but rounding.
    """
    seed_everything(7)
    network = {"hidden_dims": [8], **KINDS[kind]}
    cfg = merge(RslRlCfg(), {**AGENT, "actor": network, "critic": network}, "agent")
    learner = RslRlLearner(PayingEnv(rewards), cfg, context)
    algorithm = learner.alg
    distribution = algorithm.get_policy().distribution
    aside = torch.tensor(rewards).sub(50.0).sign().unsqueeze(1) / 2

    def sample() -> torch.Tensor:
        # The update samples too, and ignores it.
        return distribution.mean + (0.0 if torch.is_grad_enabled() else aside)

    distribution.sample = sample
    gradients = captured(algorithm.optimizer, algorithm.get_policy())
    learner.start(1)
    learner.iterate(1, lambda *_: None)
    return gradients
