"""A :class:`BatchedEnv` with rl_games' interface, and the keys of Isaac Lab's wrapper for it.

Curves have rl_games' own TensorBoard tags.

rl_games 1.6.5 keeps separate running means and variances of observations and values on each rank,
so that ranks with equal parameters see the same state differently (its master branch synchronises
them, unreleased). Here each batch's moments are summed over ranks before they are merged. The
library's own classes are not the bases of these normalisers: they print, and are already scripted
when available. The names in checkpoints and for its agents are the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from rl_games.common.algo_observer import AlgoObserver
from rl_games.common.ivecenv import IVecEnv
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.statistics import PooledRunningMeanStd
from envlab.envs import BatchedEnv
from envlab.errors import ConfigurationError
from envlab.learner import Curve, IterationRecord, OnStep
from envlab.rl_games.cfg import EnvKeysCfg, RlGamesCfg


class PooledRunningMeanStdObs(nn.Module):
    """A normaliser for each part of observations in a dict."""

    def __init__(self, shapes: dict[str, tuple[int, ...]], context: DistributedContext) -> None:
        super().__init__()
        self.running_mean_std = nn.ModuleDict(
            {name: PooledRunningMeanStd(shape, context) for name, shape in shapes.items()}
        )

    def forward(self, input: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: self.running_mean_std[name](values) for name, values in input.items()}


def normalise_groups(model: Any, context: DistributedContext) -> None:
    """Add normalisation of a dict of observations to one of rl_games' models without it.

    The library's own normaliser of a dict indexes modules by name, which TorchScript refuses.
    """
    pooled = PooledRunningMeanStdObs(model.obs_shape, context)
    model.normalize_input = True
    model.running_mean_std = pooled.to(next(model.parameters()).device)


def pool_normalisers(model: Any, context: DistributedContext) -> None:
    """Replace the normalisers of one of rl_games' models by pooled ones with the same values."""
    if model.normalize_input and not isinstance(model.obs_shape, dict):
        pooled = PooledRunningMeanStd(model.obs_shape, context)
        model.running_mean_std = _like(model.running_mean_std, pooled)
    if model.normalize_value:
        pooled = PooledRunningMeanStd((model.value_size,), context)
        model.value_mean_std = _like(model.value_mean_std, pooled)


def _like(stock: nn.Module, pooled: nn.Module) -> nn.Module:
    pooled.load_state_dict(stock.state_dict())
    return pooled.to(next(stock.buffers()).device)


Packed = dict[str, Any]
"""Observations by rl_games' names, ``obs`` and ``states``: each a tensor, or a dict of groups."""


class ObservationPacker:
    """Chooses, joins and clips observation groups for the policy and the central value network."""

    def __init__(self, env: BatchedEnv, cfg: EnvKeysCfg, *, has_central_value: bool) -> None:
        """Look up the groups.

        Raises:
            ConfigurationError: If the task does not observe one of them.
        """
        self._clip, self._joins = cfg.clip_observations, cfg.concate_obs_groups
        self._groups = {"obs": cfg.obs_groups.get("obs", [])}
        if has_central_value:
            self._groups["states"] = cfg.obs_groups.get("states", [])
        observed = env.obs_buf
        for name, groups in self._groups.items():
            missing = [group for group in groups if group not in observed]
            if missing or not groups:
                user, way_out = "the policy", ""
                if name == "states":
                    user = "the central value network"
                    way_out = ", or set agent.params.config.central_value_config to null"
                raise ConfigurationError(
                    f"agent.params.env.obs_groups.{name} is {groups}, of which {user} reads, but "
                    f"the task observes {', '.join(observed)}. Name groups of the task{way_out}."
                )
        self.spaces = {name: _space_of(value) for name, value in self(observed).items()}

    def __call__(self, obs: Mapping[str, torch.Tensor]) -> Packed:
        """Return observations by rl_games' names."""
        return {name: self._pack(obs, groups) for name, groups in self._groups.items()}

    def _pack(
        self, obs: Mapping[str, torch.Tensor], groups: list[str]
    ) -> torch.Tensor | dict[str, torch.Tensor]:
        parts = {name: self._clipped(obs[name]) for name in groups}
        if len(parts) == 1:
            return parts[groups[0]]
        return torch.cat(list(parts.values()), dim=-1) if self._joins else parts

    def _clipped(self, values: torch.Tensor) -> torch.Tensor:
        """Return values within the bound; bytes, which rl_games scales to 1, are not changed."""
        is_bytes = values.dtype == torch.uint8
        return values if is_bytes else values.clamp(-self._clip, self._clip)


class RlGamesVecEnv(IVecEnv):
    """The environment of an agent, for the agent's own constructor.

    Attributes:
        env: The environment.
        on_step: Called after each step; the learner sets it before each iteration.
    """

    def __init__(self, env: BatchedEnv, cfg: EnvKeysCfg, *, has_central_value: bool) -> None:
        self.env = env
        self.on_step: OnStep | None = None
        self.pack = ObservationPacker(env, cfg, has_central_value=has_central_value)
        self.action_space = _action_space_of(env, cfg.clip_actions)
        self._clip_actions = cfg.clip_actions

    def get_env_info(self) -> dict[str, Any]:
        """Return the spaces by rl_games' names."""
        info = {"observation_space": self.pack.spaces["obs"], "action_space": self.action_space}
        if "states" in self.pack.spaces:
            info["state_space"] = self.pack.spaces["states"]
        return info

    def observations(self) -> Packed:
        """Return the current observations, without a step or a reset."""
        return self.pack(self.env.obs_buf)

    def step(
        self, actions: torch.Tensor
    ) -> tuple[Packed, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step the environments.

        Returns:
            Observations, rewards, whether episodes ended, and infos: ``time_outs``, whether a time
            limit ended them, bool ``(num_envs,)``, and if some ended, ``final_obs``, packed.
        """
        if actions.is_floating_point():
            actions = actions.clamp(-self._clip_actions, self._clip_actions)
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        ended = terminated | truncated
        if self.on_step is not None:
            self.on_step(rewards, ended, info)
        infos: dict[str, Any] = {"time_outs": truncated}
        if "final_obs" in info:
            infos["final_obs"] = self.pack(info["final_obs"])
        return self.pack(obs), rewards, ended, infos


def make_agent(
    kind: Callable[[dict[str, Any]], Any],
    vec_env: RlGamesVecEnv,
    cfg: RlGamesCfg,
    context: DistributedContext,
) -> Any:
    """Return an agent of the library, as on one process.

    Args:
        kind: Builds it from the library's configuration.
        vec_env: Its environment.
        cfg: The agent's configuration.
        context: The process's context.
    """
    params = cfg.for_library()
    is_dict = isinstance(vec_env.pack.spaces["obs"], spaces.Dict)
    normalises_groups = is_dict and params["config"]["normalize_input"]
    # The library's constructors always make directories and an event file.
    with tempfile.TemporaryDirectory(prefix="envlab_rl_games_") as folder:
        params["config"] |= {
            "vec_env": vec_env,
            "env_info": vec_env.get_env_info(),
            "num_actors": vec_env.env.num_envs,
            "device": str(context.device),
            "multi_gpu": False,
            "train_dir": folder,
            "full_experiment_name": "scratch",
            "features": {"observer": AlgoObserver()},
        }
        params["config"]["normalize_input"] &= not is_dict
        agent = kind(params)
        agent.writer.close()
    agent.writer = None
    if normalises_groups:
        agent.normalize_input = True
        normalise_groups(agent.model, context)
    if getattr(agent, "has_central_value", False):
        agent.central_value_net.writter = None
    agent.init_tensors()
    return agent


def _action_space_of(env: BatchedEnv, clip_actions: float) -> spaces.Space:
    """Return the space of one environment's actions as rl_games knows it.

    Several choices are a ``Tuple`` of ``Discrete`` there; numbers are bounded by ``clip_actions``.
    """
    space = env.single_action_space
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.Tuple([spaces.Discrete(int(size)) for size in space.nvec])
    if isinstance(space, spaces.Box):
        return spaces.Box(-clip_actions, clip_actions, space.shape, np.float32)
    return space


def _space_of(values: torch.Tensor | dict[str, torch.Tensor]) -> spaces.Space:
    if isinstance(values, dict):
        return spaces.Dict({name: _space_of(value) for name, value in values.items()})
    shape = tuple(values.shape[1:])
    if values.dtype == torch.uint8:
        return spaces.Box(0, 255, shape, np.uint8)
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


_TAGS = {"kl": "info/kl", "alpha": "info/alpha"}
"""Tags of losses that rl_games does not put under ``losses/``."""


def library_curves(
    record: IterationRecord, step_s: float, others: Mapping[str, float]
) -> list[Curve]:
    """Return an iteration's curves, without ``shaped_rewards``: no rank knows them all.

    Args:
        record: The iteration, over all ranks.
        step_s: Time of the environments' steps on this rank, in seconds.
        others: Further values by tag.
    """
    losses = {
        name if "/" in name else _TAGS.get(name, f"losses/{name}"): value
        for name, value in record.losses.items()
    }
    frames = record.fps * (record.collect_s + record.learn_s)
    performance = {
        "performance/step_inference_rl_update_fps": record.fps,
        "performance/step_inference_fps": frames / max(record.collect_s, 1e-9),
        "performance/step_fps": frames / max(step_s, 1e-9),
        "performance/step_inference_time": record.collect_s,
        "performance/step_time": step_s,
        "performance/rl_update_time": record.learn_s,
    }
    info = {"info/last_lr": record.learning_rate, "info/epochs": record.iteration}
    curves = [Curve(record.frames, {**losses, **performance, **info, **others})]
    axes = {"step": record.frames, "iter": record.iteration, "time": round(record.wall_s)}
    for axis, position in axes.items():
        means = {
            f"rewards/{axis}": record.mean_return,
            f"episode_lengths/{axis}": record.mean_episode_length,
        }
        curves.append(Curve(position, means))
    return curves
