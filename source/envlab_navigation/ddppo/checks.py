"""Checks that refuse what DD-PPO does not support before anything is built."""

from __future__ import annotations

from gymnasium import spaces

from envlab.envs import BatchedEnv
from envlab.envs.action_use import ActionBound, clip_bound
from envlab.errors import ConfigurationError
from envlab_navigation.ddppo.cfg import DdppoCfg
from envlab_navigation.ddppo.flags import DdppoFlags
from envlab_navigation.ddppo.pipeline import TrainingPipeline


def check_supported(cfg: DdppoCfg, env: BatchedEnv, flags: DdppoFlags) -> None:
    """Refuse a configuration that cannot train on these environments.

    Raises:
        ConfigurationError: Naming the key, its value, what is expected and what to do.
    """
    if flags.grad_sync != "ddp":
        raise ConfigurationError(
            f"--grad_sync is {flags.grad_sync}, but ddppo averages gradients by "
            "DistributedDataParallel only. Leave the flag out."
        )
    if flags.replay_rollouts is not None and cfg.preemption_threshold < 1.0:
        raise ConfigurationError(
            "--replay_rollouts sets how long rollouts are, and agent.preemption_threshold "
            f"{cfg.preemption_threshold} would decide it again. Leave one of them out."
        )
    kinds = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete)
    if not isinstance(env.single_action_space, kinds):
        raise ConfigurationError(
            f"The task's actions are {env.single_action_space}, but ddppo supports only real "
            "numbers and choices."
        )
    if cfg.algorithm.num_mini_batches > env.num_envs:
        raise ConfigurationError(
            f"agent.algorithm.num_mini_batches is {cfg.algorithm.num_mini_batches}, but there are "
            f"only {env.num_envs} environments per process, and a minibatch holds whole rollouts. "
            "Use fewer, or more environments."
        )
    if len(cfg.model.channels) != 3:
        raise ConfigurationError(
            f"agent.model.channels is {cfg.model.channels}, but the simple encoder has three "
            "convolutions. Give three numbers, such as [32,64,32]."
        )


def check_pipeline(pipeline: TrainingPipeline, env: BatchedEnv) -> None:
    """Refuse more minibatches than there are environments to divide into them.

    Raises:
        ConfigurationError: Naming the stage, and both numbers.
    """
    for number, stage in enumerate(pipeline.pipeline_stages, 1):
        for component in stage.components:
            if (component.num_mini_batch or 1) > env.num_envs:
                raise ConfigurationError(
                    f"Stage {number} of the pipeline has num_mini_batch={component.num_mini_batch},"
                    f" but there are only {env.num_envs} environments per process, and a minibatch "
                    "holds whole rollouts. Use fewer, or more environments."
                )


def action_bound(cfg: DdppoCfg, env: BatchedEnv) -> ActionBound | None:
    """Return the bound that actions are clipped to, None without one."""
    return None if cfg.clip_actions is None else clip_bound(cfg.clip_actions)
