"""Refusal of what rsl_rl or its adapter does not support, before anything is built."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from gymnasium import spaces

from envlab.envs import BatchedEnv
from envlab.envs.action_use import ActionBound, clip_bound
from envlab.errors import ConfigurationError
from envlab.rsl_rl.cfg import DISTILLATION, DistillationCfg, RslRlCfg, RunnerCfg
from envlab.rsl_rl.collection import SAMPLERS
from envlab.training.overlap import check_overlap


def check_supported(cfg: RunnerCfg, env: BatchedEnv) -> None:
    """Refuse a configuration that cannot train on these environments.

    Raises:
        ConfigurationError: Naming the key, its value, what is expected and what to do.
    """
    if not isinstance(env.single_action_space, spaces.Box):
        raise ConfigurationError(
            f"The task's actions are choices ({env.single_action_space}), but rsl_rl supports only "
            "real numbers. Train it with rl_games or skrl."
        )
    if isinstance(cfg, DistillationCfg):
        _check_distillation(cfg)
    else:
        _check_ppo(cfg, env)
    groups = env.obs_buf.keys()
    for name, wanted in cfg.obs_groups.items():
        missing = [group for group in wanted if group not in groups]
        if missing:
            raise ConfigurationError(
                f"agent.obs_groups.{name} names {missing[0]!r}, but the task observes "
                f"{', '.join(groups)}."
            )
    for name in cfg.NETWORKS:
        _check_model(cfg, name, env.obs_buf)


def action_bound(cfg: RunnerCfg, env: BatchedEnv) -> ActionBound | None:
    """Return the bound that actions are clipped to, None without one."""
    return None if cfg.clip_actions is None else clip_bound(cfg.clip_actions)


def _check_ppo(cfg: RunnerCfg, env: BatchedEnv) -> None:
    assert isinstance(cfg, RslRlCfg)
    if cfg.algorithm.class_name != "PPO":
        raise ConfigurationError(
            f"agent.algorithm.class_name is {cfg.algorithm.class_name!r}, but only 'PPO' is "
            "supported here. For a distillation, choose the task's configuration by "
            "--agent=rsl_rl_distillation_cfg_entry_point."
        )
    if cfg.actor.distribution_cfg is None:
        raise ConfigurationError(
            "agent.actor.distribution_cfg is null, but the actor needs an action distribution "
            "such as {class_name: GaussianDistribution, init_std: 1.0}."
        )
    if cfg.overlap:
        _check_overlap(cfg, env)
    batch = cfg.num_steps_per_env * env.num_envs
    if cfg.algorithm.num_mini_batches > batch:
        raise ConfigurationError(
            f"agent.algorithm.num_mini_batches is {cfg.algorithm.num_mini_batches}, but there "
            f"are only {batch} samples per process and iteration. Use fewer, or more environments."
        )


def _check_overlap(cfg: RslRlCfg, env: BatchedEnv) -> None:
    """Refuse settings with which learning and collecting share state or a generator."""
    check_overlap(env)
    if cfg.algorithm.rnd_cfg is not None:
        raise ConfigurationError(
            "agent.overlap=true collects while learning, but random network distillation "
            "(agent.algorithm.rnd_cfg) learns from each collected step. Leave one out."
        )
    assert cfg.actor.distribution_cfg is not None
    name = cfg.actor.distribution_cfg.get("class_name")
    if name not in SAMPLERS:
        raise ConfigurationError(
            f"agent.overlap=true draws actions from its own generator, which {name!r} "
            f"(agent.actor.distribution_cfg.class_name) cannot do. Use {' or '.join(SAMPLERS)}, or "
            "leave agent.overlap out."
        )


def _check_distillation(cfg: DistillationCfg) -> None:
    algorithm = cfg.algorithm
    if algorithm.class_name != DISTILLATION:
        raise ConfigurationError(
            f"agent.algorithm.class_name is {algorithm.class_name!r}, but this configuration is "
            f"for {DISTILLATION!r}. Leave --agent out to train by PPO."
        )
    steps = algorithm.num_learning_epochs * cfg.num_steps_per_env
    if steps % algorithm.gradient_length:
        raise ConfigurationError(
            f"agent.algorithm.gradient_length is {algorithm.gradient_length}, but the "
            f"{steps} steps of an update (num_learning_epochs * num_steps_per_env) are not a "
            "multiple of it, so rsl_rl would skip the last ones. Use a divisor."
        )


def _check_model(cfg: RunnerCfg, name: str, obs: Mapping[str, torch.Tensor]) -> None:
    """Refuse an image without convolutions, and convolutions without an image."""
    model = getattr(cfg, name)
    groups = cfg.obs_groups.get(name, [])
    images = [group for group in groups if obs[group].dim() == 4]
    if images and model.class_name in ("MLPModel", "RNNModel"):
        shape = list(obs[images[0]].shape[1:])
        raise ConfigurationError(
            f"agent.{name}.class_name is {model.class_name!r}, but {images[0]!r} is an image of "
            f"{shape}. Set agent.{name}.class_name=CNNModel and agent.{name}.cnn_cfg."
        )
    if model.class_name == "CNNModel" and (not images or model.cnn_cfg is None):
        raise ConfigurationError(
            f"agent.{name}.class_name is 'CNNModel', but "
            + (
                f"agent.{name}.cnn_cfg is null. Give it output_channels and kernel_size."
                if images
                else f"{', '.join(groups)} are not images. Set agent.{name}.class_name=MLPModel."
            )
        )
