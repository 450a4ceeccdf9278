"""A rollout by the public methods of rsl_rl's algorithms."""

from __future__ import annotations

import torch
from rsl_rl.utils import check_nan

from envlab.envs.wrappers.rsl_rl import RslRlVecEnvWrapper
from envlab.learner import OnStep
from envlab.rsl_rl.algorithms import Algorithm
from envlab.rsl_rl.cfg import RunnerCfg


def collect(env: RslRlVecEnvWrapper, alg: Algorithm, cfg: RunnerCfg, on_step: OnStep) -> None:
    """Fill an algorithm's storage with steps of all environments, and the returns of these.

    Args:
        env: The environments.
        alg: The acting algorithm, whose policy does not change meanwhile.
        cfg: The agent's configuration.
        on_step: Called after each step.
    """
    device = torch.device(alg.device)
    checks_nan = cfg.check_for_nan and device.type == "cpu"
    obs = env.get_observations().to(device)
    for _ in range(cfg.num_steps_per_env):
        obs, rewards, dones, extras = env.step(alg.act(obs).to(env.device))
        if checks_nan:
            check_nan(obs, rewards, dones)
        obs, rewards, dones = obs.to(device), rewards.to(device), dones.to(device)
        alg.process_env_step(obs, rewards, dones, extras)
        on_step(rewards, dones.bool(), extras["info"])
    alg.compute_returns(obs)
