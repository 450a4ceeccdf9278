"""FastSAC with every second transition in the robot's mirror."""

from __future__ import annotations

from unittest import mock

import pytest
import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.envs.mirror import Mirror
from envlab.errors import ConfigurationError
from envlab.fast_sac.cfg import FastSacCfg
from envlab.fast_sac.learner import FastSacLearner
from envlab.fast_sac.replay import Batch, check_mirror
from tests.fast_sac.updates import SMALL
from tests.small_runs import env_of


def learner_of(task_id: str, *, symmetry: bool) -> FastSacLearner:
    context = DistributedContext.single("cpu")
    env = env_of(task_id, num_envs=16, context=context)
    algorithm = {**SMALL["algorithm"], "symmetry": symmetry}
    torch.manual_seed(1)
    return FastSacLearner(
        env, merge(FastSacCfg(), {**SMALL, "algorithm": algorithm}, "agent"), context
    )


def drawn(learner: FastSacLearner) -> Batch:
    """Return the batch that the learner draws and learns from next, raw."""
    torch.manual_seed(2)
    with mock.patch.object(learner, "scaled", wraps=learner.scaled) as scaled:
        learner.learn()
    return scaled.call_args.args[0]


def test_every_second_transition_is_learned_from_in_the_mirror():
    """Also what critics observe besides."""
    learner = learner_of("Envlab-Velocity-Flat-Blind-Unitree-Go2-v0", symmetry=True)
    for _ in range(4):
        learner.replay.add(*learner.collector.step(lambda rewards, ended, info: None))
    with mock.patch("envlab.fast_sac.learner.mirrored", lambda batch, mirror, groups: batch):
        plain = drawn(learner)
    found, mirror = drawn(learner), Mirror(learner.env)
    critic = mirror.obs["critic"]
    images = {"obs": mirror.obs["policy"], "next_obs": mirror.obs["policy"]}
    images |= {"critic_obs": critic, "next_critic_obs": critic, "actions": mirror.actions}
    for name, image in images.items():
        values, expected = getattr(found, name), getattr(plain, name)
        assert torch.equal(values[::2], expected[::2]), name
        assert torch.equal(values[1::2], image(expected[1::2])), name
        assert not torch.equal(values[1::2], expected[1::2]), name
    assert torch.equal(found.rewards, plain.rewards)
    learner.env.close()


def test_bounds_that_are_others_in_the_mirror_are_refused():
    learner = learner_of("Isaac-Ant-v0", symmetry=False)
    half_width = learner.half_width.clone()
    half_width[0] *= 2.0
    with pytest.raises(ConfigurationError, match="bounds of the task's actions differ from"):
        check_mirror(Mirror(learner.env), half_width, learner.middle)
    learner.env.close()
