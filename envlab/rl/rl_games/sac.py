"""rl_games' soft actor-critic on envlab, on one process: the library has no distribution for it.

Gaps that this file closes:

- Its loop ends only after an episode has, and saves and logs on its own: the loop here is ours.
- For an episode that a time limit ends, its memory holds the state before the last step as the
  next one: here it holds the final observation.
- Its checkpoints lack the temperature and the memory, so that a resume forgets both: here they are
  saved, and a resume is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

import torch
from gymnasium import spaces
from rl_games.algos_torch.sac_agent import SACAgent
from rl_games.common.experience import VectorizedReplayBuffer
from rl_games.common.tr_helpers import DefaultRewardsShaper

from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv
from envlab.errors import ConfigurationError
from envlab.rl.learner import Curve, Iteration, IterationRecord, OnStep
from envlab.rl.rl_games.cfg import RlGamesCfg
from envlab.rl.rl_games.checks import fitting_checkpoint, supported_configuration
from envlab.rl.rl_games.curves import library_curves
from envlab.rl.rl_games.env import RlGamesVecEnv, scratch_settings

OPTIMIZERS = ("actor_optimizer", "critic_optimizer", "log_alpha_optimizer")
MEMORY = ("obses", "next_obses", "actions", "rewards", "dones")
"""Tensors of the replay memory, a row per transition."""


class ReplayMemory(VectorizedReplayBuffer):
    """The library's replay memory, with the states in which time limits ended episodes."""

    def __init__(self, vec_env: RlGamesVecEnv, capacity: int, device: str) -> None:
        info = vec_env.get_env_info()
        shapes = info["observation_space"].shape, info["action_space"].shape
        super().__init__(*shapes, capacity, device)
        self._vec_env = vec_env

    def add(
        self,
        obs: torch.Tensor,
        action: torch.Tensor,
        reward: torch.Tensor,
        next_obs: torch.Tensor,
        done: torch.Tensor,
    ) -> None:
        if self._vec_env.final_obs is not None:
            time_outs = self._vec_env.time_outs.unsqueeze(1)
            next_obs = torch.where(time_outs, self._vec_env.final_obs["obs"], next_obs)
        super().add(obs, action, reward, next_obs, done)

    def state(self) -> dict[str, Any]:
        """Return what is filled of it."""
        size = self.capacity if self.full else self.idx
        rows = {name: getattr(self, name)[:size].cpu().clone() for name in MEMORY}
        return {"position": self.idx, "full": self.full, **rows}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned."""
        self.idx, self.full = state["position"], state["full"]
        for name in MEMORY:
            getattr(self, name)[: len(state[name])] = state[name].to(self.device)


class SacAgent(SACAgent):
    """Soft actor-critic with envlab's loop, metrics and checkpoints."""

    writer: Any
    frame: int

    def __init__(self, env: VectorEnv, cfg: RlGamesCfg, context: DistributedContext) -> None:
        """Build networks, optimizers and the replay memory.

        Raises:
            ConfigurationError: If rl_games refuses the configuration.
        """
        _check_supported(cfg, env)
        params = cfg.for_library()
        vec_env = RlGamesVecEnv(env, cfg.params.env, has_central_value=False)
        check_vectors(vec_env)
        vec_env.tells_time_outs = True
        with supported_configuration(), scratch_settings(vec_env, context) as settings:
            shaper = DefaultRewardsShaper(**params["config"]["reward_shaper"])
            params["config"] |= settings | {"reward_shaper": shaper}
            super().__init__("run", params)
            self.writer.close()
            self.init_tensors()
            self.replay_buffer = ReplayMemory(vec_env, self.replay_buffer_size, self._device)
        self.vec_env, self.writer = vec_env, None

    def start(self, total: int) -> None:
        """See :class:`envlab.rl.learner.Learner`."""
        self.obs = self.obs_to_tensors(self.vec_env.observations())

    def iterate(self, number: int, on_step: OnStep) -> Iteration:
        """See :class:`envlab.rl.learner.Learner`."""
        self.vec_env.on_step = on_step
        self.epoch_num = number
        self._step_s, collect_s, learn_s, _, *lists = self.train_epoch()
        self.frame += self.num_frames_per_epoch
        return Iteration(
            frames=self.num_frames_per_epoch,
            collect_s=collect_s,
            learn_s=learn_s,
            learning_rate=self.actor_optimizer.param_groups[0]["lr"],
            losses=_losses(lists, self.learnable_temperature),
        )

    def curves(self, record: IterationRecord) -> list[Curve]:
        """See :class:`envlab.rl.learner.Learner`."""
        return library_curves(record, self._step_s, {})

    def is_finished(self, record: IterationRecord) -> bool:
        """Return no: rl_games' SAC trains to the end of its budget."""
        return False

    def model_state(self) -> dict[str, Any]:
        """See :class:`envlab.rl.loop.training.Learner`."""
        return {
            "networks": self.model.state_dict(),
            "log_alpha": self.log_alpha.detach().clone(),
            **{name: getattr(self, name).state_dict() for name in OPTIMIZERS},
            "updates": self.update_counter,
            "epoch": self.epoch_num,
            "frame": self.frame,
        }

    def load_models(self, values: Mapping[str, Any]) -> None:
        """See :class:`envlab.rl.loop.training.Learner`."""
        state = values["model"]
        with fitting_checkpoint():
            self.model.load_state_dict(state["networks"])
            for name in OPTIMIZERS:
                getattr(self, name).load_state_dict(state[name])
        with torch.no_grad():
            self.log_alpha.copy_(state["log_alpha"])
        self.update_counter, self.epoch_num = state["updates"], state["epoch"]
        self.frame = state["frame"]

    def rank_state(self) -> dict[str, Any]:
        """Return the replay memory."""
        return self.replay_buffer.state()

    def set_rank_state(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`rank_state` returned."""
        self.replay_buffer.set_state(state)

    def noise_keys(self) -> dict[str, Any]:
        """Return nothing: actions are sampled with torch's own generator."""
        return {}


def _check_supported(cfg: RlGamesCfg, env: VectorEnv) -> None:
    config = cfg.params.config
    for name in ("batch_size", "num_updates_per_step", "policy_frequency"):
        if getattr(config, name) <= 0:
            raise ConfigurationError(
                f"agent.params.config.{name} is {getattr(config, name)}, but must be greater than "
                "0."
            )
    if config.replay_buffer_size < env.num_envs:
        raise ConfigurationError(
            f"agent.params.config.replay_buffer_size is {config.replay_buffer_size}, but must hold "
            f"a step of all {env.num_envs} environments."
        )
    if config.torch_compile:
        raise ConfigurationError(
            f"agent.params.config.torch_compile is {config.torch_compile!r}, but SAC is not "
            "compiled. Leave it out."
        )


def check_vectors(vec_env: RlGamesVecEnv) -> None:
    """Refuse observations that are not one vector.

    Raises:
        ConfigurationError: With their space.
    """
    space = vec_env.pack.spaces["obs"]
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise ConfigurationError(
            f"The policy observes {space}, but rl_games' SAC takes one vector only. Use PPO, or "
            "set agent.params.env.concate_obs_groups=true."
        )


def _losses(lists: Sequence[list[Any]], learns_temperature: bool) -> dict[str, float]:
    """Return the means of an iteration, over those updates that a loss is of.

    For updates that leave the actor alone, rl_games lists an actor's loss of 0, and None for the
    temperature's.
    """
    actor, entropies, alphas, alpha_losses, first, second = lists
    kept = [value is not None or not learns_temperature for value in alpha_losses]
    named = {
        "a_loss": list(compress(actor, kept)),
        "entropy": list(compress(entropies, kept)),
        "alpha": alphas,
        "alpha_loss": [value for value in alpha_losses if value is not None],
        "c1_loss": first,
        "c2_loss": second,
    }
    return {
        name: float(torch.stack(values).detach().mean()) for name, values in named.items() if values
    }
