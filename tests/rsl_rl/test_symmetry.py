"""rsl_rl's symmetry with the robot's own mirror, and with functions of users."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.envs.mirror import Mirror
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from envlab.rsl_rl.cfg import RslRlCfg
from envlab.rsl_rl.learner import RslRlLearner

NUM_ENVS = 6


def learner_with(**symmetry: Any) -> RslRlLearner:
    task = get_task("Isaac-Ant-v0")
    context = DistributedContext.single("cpu")
    env = task.make(load_env_cfg(task), context=context, num_envs=NUM_ENVS, seed=1)
    network = {"hidden_dims": [16]}
    values = {"actor": network, "critic": network, "num_steps_per_env": 4}
    cfg = merge(RslRlCfg(), values | {"algorithm": {"symmetry_cfg": symmetry}}, "agent")
    return RslRlLearner(env, cfg, context)


def test_a_batch_is_learned_from_with_its_image():
    learner = learner_with(use_data_augmentation=True)
    env, mirror = learner.env.unwrapped, Mirror(learner.env.unwrapped)
    batches: list[torch.Tensor] = []
    judged: list[torch.Tensor] = []
    actor = learner.alg.actor
    forward, log_prob = actor.forward, actor.get_output_log_prob

    def watched(obs: TensorDict, *args: Any, **kwargs: Any) -> torch.Tensor:
        if torch.is_grad_enabled() and "stochastic_output" in kwargs:
            batches.append(obs["policy"].clone())
        return forward(obs, *args, **kwargs)

    def judge(actions: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            judged.append(actions.clone())
        return log_prob(actions)

    actor.forward, actor.get_output_log_prob = watched, judge
    losses = learner.iterate(1, lambda rewards, ended, info: None).losses
    assert losses["symmetry"] > 0.0
    assert len(batches) == 5 * 4
    for obs, actions in zip(batches, judged, strict=True):
        half = len(obs) // 2
        assert half == NUM_ENVS
        assert torch.equal(obs[half:], mirror.obs["policy"](obs[:half]))
        assert torch.equal(actions[half:], mirror.actions(actions[:half]))
    env.close()


def in_circles(env: Any, obs: TensorDict | None, actions: torch.Tensor | None) -> Any:
    """Return a batch with a part that is turned by a column, which is no mirror."""
    obs = None if obs is None else torch.cat((obs, obs))
    return obs, None if actions is None else torch.cat((actions, actions.roll(1, dims=1)))


def turned_over(env: Any, obs: TensorDict | None, actions: torch.Tensor | None) -> Any:
    """Return a batch and its negative, whose negative is the batch."""
    if obs is not None:
        obs = torch.cat((obs, TensorDict({"policy": -obs["policy"]}, len(obs))))
    return obs, None if actions is None else torch.cat((actions, -actions))


def test_a_function_that_does_not_square_to_the_identity_is_refused():
    with pytest.raises(ConfigurationError, match=r"in_circles.*does not square to the identity"):
        learner_with(data_augmentation_func=f"{__name__}:in_circles", use_mirror_loss=True)


def test_a_users_own_mirror_is_taken():
    learner = learner_with(data_augmentation_func=f"{__name__}:turned_over", use_mirror_loss=True)
    assert learner.alg.symmetry.data_augmentation_func is turned_over
    learner.env.close()
