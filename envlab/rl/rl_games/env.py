"""A :class:`VectorEnv` as rl_games wants it, with the keys of Isaac Lab's wrapper for it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from rl_games.common.algo_observer import AlgoObserver
from rl_games.common.ivecenv import IVecEnv

from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv
from envlab.errors import ConfigurationError
from envlab.rl.rl_games.cfg import EnvKeysCfg

Packed = dict[str, Any]
"""Observations by rl_games' names, ``obs`` and ``states``: a tensor, or a dict of groups, each."""


class ObservationPacker:
    """Chooses, joins and clips observation groups for the policy and the central value network."""

    def __init__(self, env: VectorEnv, cfg: EnvKeysCfg, *, has_central_value: bool) -> None:
        """Look the groups up.

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
                user = "the policy" if name == "obs" else "the central value network"
                raise ConfigurationError(
                    f"agent.params.env.obs_groups.{name} is {groups}, of which {user} reads, but "
                    f"the task observes {', '.join(observed)}. Name groups of the task"
                    + (
                        ", or set agent.params.config.central_value_config to null."
                        if name == "states"
                        else "."
                    )
                )
        self.spaces = {name: _space_of(value) for name, value in self(observed).items()}

    def __call__(self, obs: Mapping[str, torch.Tensor]) -> Packed:
        """Return observations by rl_games' names."""
        return {name: self._pack(obs, groups) for name, groups in self._groups.items()}

    def _pack(
        self, obs: Mapping[str, torch.Tensor], groups: list[str]
    ) -> torch.Tensor | dict[str, torch.Tensor]:
        parts = {name: obs[name].clamp(-self._clip, self._clip) for name in groups}
        if len(parts) == 1:
            return parts[groups[0]]
        return torch.cat(list(parts.values()), dim=-1) if self._joins else parts


class RlGamesVecEnv(IVecEnv):
    """The environment of an agent, which the agent's own constructor is given.

    Attributes:
        env: The environment.
        on_step: Called with rewards, whether episodes ended, and info, after each step.
        final_obs: Packed observations of the states that ended in the last step; None if none did.
        time_outs: Whether a time limit ended it in the last step, bool ``(num_envs,)``.
        tells_time_outs: Whether rl_games is told of time limits, and so treats them in its own way.
    """

    def __init__(self, env: VectorEnv, cfg: EnvKeysCfg, *, has_central_value: bool) -> None:
        self.env = env
        self.on_step: Callable[[torch.Tensor, torch.Tensor, Mapping[str, Any]], None] | None = None
        self.final_obs: Packed | None = None
        self.time_outs = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        self.tells_time_outs = False
        self.pack = ObservationPacker(env, cfg, has_central_value=has_central_value)
        self.action_space = action_space_of(env, cfg.clip_actions)
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

    def reset(self) -> Packed:
        self.env.reset()
        return self.observations()

    def step(
        self, actions: torch.Tensor
    ) -> tuple[Packed, torch.Tensor, torch.Tensor, dict[str, Any]]:
        if actions.is_floating_point():
            actions = actions.clamp(-self._clip_actions, self._clip_actions)
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        ended = terminated | truncated
        self.time_outs = truncated
        self.final_obs = self.pack(info["final_obs"]) if "final_obs" in info else None
        if self.on_step is not None:
            self.on_step(rewards, ended, info)
        infos = {"time_outs": truncated} if self.tells_time_outs else {}
        return self.pack(obs), rewards, ended, infos


@contextlib.contextmanager
def scratch_settings(
    vec_env: RlGamesVecEnv, context: DistributedContext
) -> Iterator[dict[str, Any]]:
    """Give what an agent's constructor reads beside its configuration, as on one process.

    The constructors make directories and event files of their own: in a folder that is gone when
    this context ends. An agent must close its writer before.
    """
    with tempfile.TemporaryDirectory(prefix="envlab_rl_games_") as folder:
        yield {
            "vec_env": vec_env,
            "env_info": vec_env.get_env_info(),
            "num_actors": vec_env.env.num_envs,
            "device": str(context.device),
            "device_name": str(context.device),
            "multi_gpu": False,
            "print_stats": False,
            "train_dir": folder,
            "full_experiment_name": "scratch",
            "features": {"observer": AlgoObserver()},
        }


def action_space_of(env: VectorEnv, clip_actions: float) -> spaces.Space:
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
    return spaces.Box(-np.inf, np.inf, tuple(values.shape[1:]), np.float32)
