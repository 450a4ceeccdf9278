"""Noise models combine draws of the environments' own streams with values."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import ConstantNoiseCfg, GaussianNoiseCfg, NoiseModelWithAdditiveBiasCfg, mdp
from envlab.envs.random import EnvRandom, RandomStream
from envlab.errors import ConfigurationError
from tests.envs.sliders import make_env, terms

VALUES = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])


def make_stream() -> RandomStream:
    return EnvRandom(0, 0, 2, torch.device("cpu")).stream("noise")


def test_operations():
    values, stream = VALUES.clone(), make_stream()
    for operation, expected in {
        "add": [[1.5, -1.5, 3.5], [4.5, 5.5, -5.5]],
        "scale": [[0.5, -1.0, 1.5], [2.0, 2.5, -3.0]],
        "abs": [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]],
    }.items():
        noisy = ConstantNoiseCfg(operation=operation, bias=0.5).apply(values, stream)
        assert torch.equal(noisy, torch.tensor(expected)), operation
        assert torch.equal(values, VALUES)  # which stay unchanged


def test_gaussian_noise_is_its_stream():
    noisy = GaussianNoiseCfg(mean=2.0, std=0.1).apply(VALUES, make_stream())
    assert torch.equal(noisy, VALUES + make_stream().normal(2.0, 0.1, 3))


def test_a_bias_of_each_episode_is_refused_where_none_is_drawn():
    gaussian = GaussianNoiseCfg()
    noise = NoiseModelWithAdditiveBiasCfg(noise_cfg=gaussian, bias_noise_cfg=gaussian)
    term = mdp.JointEffortActionCfg(joint_names="push", noise=noise)
    with pytest.raises(ConfigurationError, match=r"env\.actions\.force\.noise has a"):
        make_env(1, actions=terms(force=term))
