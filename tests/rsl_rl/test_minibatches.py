"""Advantages normalised per minibatch on two real ranks, of which one earns a hundred times more.

Normalised by each rank's own moments, both ranks' actions would seem equally good.
"""

from __future__ import annotations

from typing import Any

import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.rsl_rl.learner import RslRlLearner
from tests.rsl_rl.minibatches import AGENT, KINDS, REWARDS, PayingEnv, paid_update
from tests.trained import Pair, gradient_error, of_ranks, on_one_thread

TOLERANCE = 1e-5
"""Largest error of a gradient, as a share of its tensor's largest element."""


def test_two_ranks_learn_what_one_process_learns_from_both(trained_pair: Pair):
    both = [reward for rewards in REWARDS for reward in rewards]
    for kind in KINDS:
        expected = on_one_thread(lambda context, kind=kind: paid_update(context, both, kind))
        for update in of_ranks(trained_pair.folder, "minibatches_rank"):
            assert gradient_error(expected, update[kind]) < TOLERANCE, kind


def test_each_minibatch_is_normalised_by_its_own_moments():
    agent: dict[str, Any] = {**AGENT, "algorithm": {**AGENT["algorithm"], "num_mini_batches": 2}}
    cfg = merge(RslRlCfg(), agent, "agent")
    learner = RslRlLearner(PayingEnv([1.0, 100.0]), cfg, DistributedContext.single("cpu"))
    storage = learner.alg.storage
    storage.distribution_params = (torch.zeros(4, 2, 1), torch.ones(4, 2, 1))
    storage.returns.copy_(torch.arange(8.0).view(4, 2, 1) ** 2)
    learner.alg.normalise_advantages()
    torch.testing.assert_close(storage.advantages, storage.returns)
    for batch in storage.mini_batch_generator(2, 1):
        torch.testing.assert_close(batch.advantages.mean(), torch.tensor(0.0))
        torch.testing.assert_close(batch.advantages.std(), torch.tensor(1.0))
