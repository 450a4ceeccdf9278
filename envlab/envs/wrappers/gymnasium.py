"""The numpy face of tasks: what ``numpy/Isaac-Ant-v0`` names in Gymnasium's registry.

``gymnasium.make`` gives a :class:`NumpyEnv`, ``gymnasium.make_vec`` a :class:`NumpyVectorEnv`, both
with Gymnasium's own conventions: arrays, one ``Box`` of observations, actions with finite bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from torch.utils._pytree import tree_map

from envlab.envs.batched_env import AutoresetMode, BatchedEnv, Observations
from envlab.envs.direct_marl_env import DirectMarlEnv
from envlab.envs.masks import merged
from envlab.envs.single_agent import multi_agent_to_single_agent
from envlab.envs.vector_env import VectorEnv
from envlab.errors import ConfigurationError, did_you_mean

MODES = {mode.value: mode for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)}
"""Modes of automatic resets, by Gymnasium's words for them."""
Arrays = np.ndarray | dict[str, Any]
"""Observations: an array, or one for each group if several are requested; a group that is a
dictionary of its terms has an array for each term."""


class NumpyVectorEnv(gymnasium.vector.VectorEnv):  # type: ignore[type-arg]
    """A :class:`BatchedEnv` as Gymnasium's own vector environments are: ``make_vec``'s result.

    Arrays belong to the caller, and no later step changes them. Rewards are float64.

    Where an episode ends, by the mode of automatic resets (``metadata["autoreset_mode"]``):

    - ``NextStep``, as Gymnasium's own: the step returns the episode's last observation; the next
      one ignores the action, returns the new episode's first observation, and rewards 0.
    - ``SameStep``, as the torch ids: the step returns the new episode's first observation, and the
      last one in ``info["final_obs"]``.

    What is known of an ended episode is in the step's info, in that of the mode ``SameStep`` under
    ``final_info``: ``log``, the task's means over all episodes that ended in the step.

    Attributes:
        env: The environment.
        log: The log of the episodes that ended last.
    """

    metadata = {"render_modes": ["rgb_array"], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        task: str | BatchedEnv,
        *,
        num_envs: int = 1,
        observe: str | Sequence[str] | None = None,
        action_scale: float | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        cfg: Any = None,
        device: str | None = None,
        seed: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Make the environments of a task.

        Args:
            task: Its torch id, or the environments.
            num_envs: Number of environments. This and what follows ``copy`` are as for the torch
                id, and unused where ``task`` is the environments.
            observe: A group of observations, or several, which are a ``Dict``; None: ``policy``.
            action_scale: The task's action that 1 means, where the task has no bounds.
            autoreset_mode: ``NextStep`` or ``SameStep``.
            copy: Whether arrays stay as they are; False: on a CPU, a later step may change them.
            cfg: The configuration; None: the task's.
            device: Of the simulation; None: a GPU if there is one.
            seed: Base seed; None: a random one.
            render_mode: None or ``rgb_array``.

        Raises:
            ConfigurationError: For an invalid value.
        """
        mode = autoreset_mode.value if isinstance(autoreset_mode, AutoresetMode) else autoreset_mode
        if mode not in MODES:
            raise ConfigurationError(
                f"autoreset_mode is {mode!r}, but envlab's environments reset themselves in the "
                f"same step or the next. Give one of {', '.join(MODES)}."
            )
        self.env = _make(task, num_envs, cfg=cfg, device=device, seed=seed, render_mode=render_mode)
        self._face = _Face(self.env, observe, action_scale, copy=copy)
        self.num_envs = self.env.num_envs
        self.render_mode = self.env.render_mode
        self.autoreset_mode = MODES[mode]  # Gymnasium's own have it, and TorchRL asks for it
        self.metadata = {**_metadata(self.env), "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = self._face.observation_space
        self.single_action_space = self._face.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.log: dict[str, float] = {}
        self._waits = self.autoreset_mode == AutoresetMode.NEXT_STEP
        self._waiting = np.zeros(self.num_envs, dtype=bool)
        """Environments whose next step is their reset."""
        self._shown: Observations = self.env.obs_buf
        """What the last step or reset returned."""

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those of ``options["reset_mask"]``, bool ``(num_envs,)``.

        Args:
            seed: A base seed, from which each environment derives its own randomness.
            options: See above.
        """
        if seed is not None:
            seed = list(seed) if isinstance(seed, Sequence) else seed
            super().reset(seed=seed[0] if isinstance(seed, list) else seed)
        obs, _ = self.env.reset(seed=seed, options=options)
        if options and "reset_mask" in options:
            mask = np.asarray(options["reset_mask"], dtype=bool)
            self._waiting = self._waiting & ~mask
            obs = merged(self._tensor(mask), obs, self._shown)
        else:
            self._waiting = np.zeros(self.num_envs, dtype=bool)
        self._shown = obs
        return self._face.arrays(obs), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Make a step with actions, ``(num_envs, num_actions)``."""
        obs, reward, *flags, info = self.env.step(self._face.actions(actions))
        rewards = reward.cpu().numpy().astype(np.float64)
        terminated, truncated = (self._face.array(values) for values in flags)
        waiting = self._waiting
        if waiting.any():
            # The batch steps as a whole, so that these were stepped too, and begin once more.
            begun, _ = self.env.reset(options={"reset_mask": waiting})
            obs = merged(self._tensor(waiting), begun, obs)
            rewards[waiting] = 0.0
            terminated, truncated = terminated & ~waiting, truncated & ~waiting
        ended = terminated | truncated
        told = _success(info, ~(waiting if self._waits else ended))
        if ended.any():
            self.log = _numbers(info["log"])
            log = {"log": _rows(self.log, ended), "_log": ended}
            if self._waits:
                obs = merged(self._tensor(ended), info["final_obs"], obs)
                told |= log
            else:
                told |= {"final_obs": self._ended_rows(info["final_obs"], ended)}
                told |= {"final_info": _success(info, ended) | log}
                told |= {"_final_obs": ended, "_final_info": ended}
        if self._waits:
            self._waiting = ended.copy()  # the caller has the other
        self._shown = obs
        return self._face.arrays(obs), rewards, terminated, truncated, told

    def render(self) -> tuple[np.ndarray, ...] | None:  # type: ignore[override]
        """Return a picture of each environment, uint8 ``(height, width, 3)``.

        Raises:
            ConfigurationError: If the task draws environment 0 only, and there are several.
        """
        if self.render_mode is None:
            return None
        env = self.env
        if isinstance(env, VectorEnv):
            # A copy, because the next picture is drawn into the same memory.
            return tuple(env.picture(index).copy() for index in range(self.num_envs))
        if self.num_envs > 1:
            raise ConfigurationError(
                f"{type(env).__name__} draws only the first of its {self.num_envs} environments. "
                "Make it with num_envs=1 to draw it."
            )
        picture = env.render()
        assert picture is not None
        return (picture,)

    def close_extras(self, **kwargs: Any) -> None:
        """Free the simulation."""
        self.env.close()

    def _tensor(self, mask: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(mask, device=self.env.device)

    def _ended_rows(self, obs: Observations, ended: np.ndarray) -> np.ndarray:
        """Return an observation of each environment that ended, and None of the others."""
        rows = np.full(self.num_envs, None, dtype=object)
        for index in np.flatnonzero(ended).tolist():
            rows[index] = self._face.row(obs, index)
        return rows


class NumpyEnv(gymnasium.Env[Any, Any]):
    """One environment, which ends and waits for its reset: ``gymnasium.make``'s result.

    It is for code that does not support batches, and slow in comparison.

    Attributes:
        env: The batch of one environment.
    """

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(
        self,
        task: str | BatchedEnv,
        *,
        observe: str | Sequence[str] | None = None,
        action_scale: float | None = None,
        cfg: Any = None,
        device: str = "cpu",
        seed: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Make the environment of a task; the arguments are those of :class:`NumpyVectorEnv`.

        Unless asked to, it is not on a GPU, where one environment is slower, and which the
        processes of ``AsyncVectorEnv`` could not share.

        Raises:
            ConfigurationError: For an invalid value, or a batch of several.
        """
        env = _make(task, 1, cfg=cfg, device=device, seed=seed, render_mode=render_mode)
        if env.num_envs != 1:
            raise ConfigurationError(
                f"The environment is a batch of {env.num_envs}, but only one can be a plain "
                "gymnasium.Env. Make it with num_envs=1."
            )
        self.env = env
        self._face = _Face(env, observe, action_scale)
        self.observation_space = self._face.observation_space
        self.action_space = self._face.action_space
        self.render_mode = env.render_mode
        self.metadata = _metadata(env)
        self._has_begun = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment.

        After an episode has ended, this returns the start of the new one, which the batch has
        already begun.
        """
        super().reset(seed=seed)
        if seed is not None or not self._has_begun:
            self.env.reset(seed=seed)
        self._has_begun = False
        return self._face.row(self.env.obs_buf, 0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make a step.

        When it ends an episode, the observation is the episode's last one, and info holds the
        task's ``log`` of the episode.
        """
        actions = self._face.actions(np.asarray(action)[None])
        obs, reward, terminated, truncated, info = self.env.step(actions)
        flags = bool(terminated), bool(truncated)
        self._has_begun = any(flags)
        told: dict[str, Any] = {}
        if "success" in info:
            told["is_success"] = bool(info["success"] > 0.5)
        if self._has_begun:
            obs, told["log"] = info["final_obs"], _numbers(info["log"])
        return self._face.row(obs, 0), float(reward), *flags, told

    def render(self) -> Any:
        """Return a picture, uint8 ``(height, width, 3)``; None without a ``render_mode``."""
        return self.env.render()

    def close(self) -> None:
        self.env.close()


class _Face:
    """Spaces of one environment in numpy, and arrays from a batch's tensors and back.

    Attributes:
        observation_space: Of one environment.
        action_space: Of one environment.
    """

    def __init__(
        self,
        env: BatchedEnv,
        observe: str | Sequence[str] | None,
        action_scale: float | None,
        *,
        copy: bool = True,
    ) -> None:
        groups = env.single_observation_space
        assert isinstance(groups, spaces.Dict)
        if observe is None:
            observe = "policy" if "policy" in groups.spaces else list(groups.spaces)
        self._names = [observe] if isinstance(observe, str) else list(observe)
        for name in self._names:
            if name not in groups.spaces:
                raise ConfigurationError(
                    f"The task has no group of observations {name!r}."
                    f"{did_you_mean(name, groups.spaces)} It has {', '.join(groups.spaces)}."
                )
        self._is_one = isinstance(observe, str)
        self._copies = copy
        asked = {name: groups[name] for name in self._names}
        self.observation_space = groups[observe] if self._is_one else spaces.Dict(asked)  # type: ignore[index]
        self.action_space, self._scale = _bounded(env.single_action_space, action_scale)

    def arrays(self, obs: Observations) -> Arrays:
        """Return observations of all environments."""
        return self._packed([tree_map(self.array, obs[name]) for name in self._names])

    def row(self, obs: Observations, index: int) -> Arrays:
        """Return observations of one environment, which stay as they are."""

        def one(values: torch.Tensor) -> np.ndarray:
            array: np.ndarray = values[index].cpu().numpy().copy()
            return array

        return self._packed([tree_map(one, obs[name]) for name in self._names])

    def array(self, values: torch.Tensor) -> np.ndarray:
        """Return an array, which stays as it is unless copies are not wanted."""
        array: np.ndarray = values.cpu().numpy()
        return array.copy() if self._copies and values.device.type == "cpu" else array

    def actions(self, actions: Any) -> Any:
        """Return the task's actions for those in :attr:`action_space`.

        They are a copy: a task keeps them for the next step, while the caller may overwrite its
        array with the next ones.
        """
        return np.array(actions) if self._scale is None else np.multiply(actions, self._scale)

    def _packed(self, arrays: list[np.ndarray]) -> Arrays:
        return arrays[0] if self._is_one else dict(zip(self._names, arrays, strict=True))


def _make(
    task: str | BatchedEnv, num_envs: int, *, render_mode: str | None, **kwargs: Any
) -> BatchedEnv:
    """Return the batch of a task; several agents are one that moves them all."""
    if render_mode not in (None, "rgb_array"):
        raise ConfigurationError(
            f"render_mode is {render_mode!r}, but must be None or 'rgb_array'. To watch, wrap the "
            "environment in Gymnasium's HumanRendering."
        )
    env: Any = task
    if isinstance(task, str):
        made = gymnasium.make(task, num_envs=num_envs, render_mode=render_mode, **kwargs)
        env = made.unwrapped
    assert isinstance(env, BatchedEnv)
    return multi_agent_to_single_agent(env) if isinstance(env, DirectMarlEnv) else env


def _metadata(env: BatchedEnv) -> dict[str, Any]:
    return {"render_modes": ["rgb_array"], "render_fps": round(1 / env.step_dt)}


def _bounded(
    space: gymnasium.Space[Any], action_scale: float | None
) -> tuple[gymnasium.Space[Any], np.float32 | None]:
    """Return a space of actions with finite bounds, and what the task's actions are multiples of.

    A task's own bounds stay; without bounds, they are -1 to 1, and an action is multiplied by
    ``action_scale``.
    """
    if not isinstance(space, spaces.Box) or space.is_bounded():
        if action_scale not in (None, 1.0):
            raise ConfigurationError(
                f"action_scale is {action_scale}, but the task's actions already have bounds, "
                f"{space}. Leave action_scale out."
            )
        return space, None
    if action_scale is None or not np.isfinite(action_scale) or action_scale <= 0:
        raise ConfigurationError(
            f"action_scale is {action_scale}, but the task's actions have no bounds. Give the "
            "action that 1 means, such as action_scale=1.0."
        )
    return spaces.Box(-1.0, 1.0, space.shape, np.float32), np.float32(action_scale)


def _success(info: dict[str, Any], has: np.ndarray) -> dict[str, Any]:
    """Return which episodes succeed, and the mask of whose they are; nothing if none can."""
    if "success" not in info:
        return {}
    return {"is_success": info["success"].cpu().numpy() > 0.5, "_is_success": has}


def _numbers(log: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in log.items()}


def _rows(log: dict[str, float], ended: np.ndarray) -> dict[str, np.ndarray]:
    """Return a log as Gymnasium has infos of ended episodes: a value and a mask by environment."""
    rows: dict[str, np.ndarray] = {}
    for name, value in log.items():
        rows |= {name: np.where(ended, value, 0.0), f"_{name}": ended}
    return rows
