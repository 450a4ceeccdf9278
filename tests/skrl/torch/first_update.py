"""The first update of skrl's PPO on PyTorch, see :func:`tests.skrl.jobs.first_update`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch.distributions import Normal

from envlab.distributed.context import DistributedContext
from envlab.skrl.learner import SkrlLearner
from envlab.skrl.torch.learner import make_learner
from tests.skrl import jobs

NUM_ENVS = 1024


@contextlib.contextmanager
def watching(
    learner: SkrlLearner, noise: Any, gradients: dict[str, torch.Tensor]
) -> Iterator[None]:
    """Sample actions from ``noise``, and keep the gradients of the optimizer's step."""
    agent, num_envs = learner.agent, learner.env.env.num_envs
    step = agent.optimizer.step

    def sample(distribution: Normal, *_: Any) -> torch.Tensor:
        mean = distribution.loc
        if len(mean) != num_envs or torch.is_grad_enabled():
            return mean  # the update samples too, and ignores it
        return mean + distribution.scale * noise.normal(0.0, 1.0, mean.shape[1])

    def capture(*args: Any) -> None:
        for name, parameter in agent.policy.named_parameters():
            assert parameter.grad is not None
            gradients[name.removeprefix("module.")] = parameter.grad.clone()
        step(*args)

    agent.optimizer.step = capture
    with mock.patch.object(Normal, "rsample", sample):
        yield


def first_update(context: DistributedContext, grad_sync: str = "ddp") -> dict[str, Any]:
    """Return initial states, gradients before the optimizer's first step, normalisers after it."""
    make = functools.partial(make_learner, grad_sync=grad_sync)
    found, learner = jobs.first_update(context, NUM_ENVS, "torch", make, watching)
    modules = learner.agent.checkpoint_modules
    return found | {
        "num_time_outs": int(learner.agent.memory.get_tensor_by_name("truncated").sum()),
        "buffers": {
            f"{scaler}.{name}": buffer.clone()
            for scaler in ("observation_preprocessor", "value_preprocessor")
            for name, buffer in modules[scaler].named_buffers()
        },
    }
