"""envlab's environments as skrl's agents on PyTorch see them, for one agent and for several."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import gymnasium
import torch

from envlab.envs import VectorEnv
from envlab.envs.direct_marl_env import STATE
from envlab.rl.skrl.learner import Transition
from envlab.rl.skrl.library import load_skrl

load_skrl()

from skrl.envs.wrappers.torch.base import MultiAgentEnvWrapper, Wrapper  # noqa: E402


class SkrlVectorEnv(Wrapper):
    """A :class:`VectorEnv`; its group ``critic``, if it has one, is skrl's state.

    skrl keeps observations as vectors and gives networks the space's shape back, so images are
    flattened here.
    """

    def __init__(self, env: VectorEnv, *, bounded: bool = False) -> None:
        """Wrap an environment.

        Args:
            env: The environment.
            bounded: Whether actions without bounds are to lie in -1 to 1; DDPG and TD3 clip those
                that they have put noise on, and fail without a bound.
        """
        super().__init__(env)
        self.env = env
        space = env.single_action_space
        if bounded and isinstance(space, gymnasium.spaces.Box) and not space.is_bounded():
            space = gymnasium.spaces.Box(-1.0, 1.0, space.shape)
        self._action_space = space

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        return self._group_space("policy")

    @property
    def state_space(self) -> gymnasium.Space[Any] | None:
        return self._group_space("critic") if "critic" in self.env.obs_buf else None

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return self._action_space

    def observe(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """See :class:`envlab.rl.skrl.learner.SkrlEnv`."""
        obs = _flat(self.env.obs_buf)
        return obs["policy"], obs.get("critic")

    def advance(self, actions: torch.Tensor) -> Transition:
        """See :class:`envlab.rl.skrl.learner.SkrlEnv`."""
        seen, reward, terminated, truncated, info = self.env.step(actions)
        obs, final = _flat(seen), _flat(final_values(seen, info))
        return Transition(
            rewards=reward.unsqueeze(1).clone(),  # agents add to it in place
            terminated=terminated.unsqueeze(1),
            truncated=truncated.unsqueeze(1),
            final_observations=final["policy"],
            final_states=final.get("critic"),
            observations=obs["policy"],
            states=obs.get("critic"),
            returns=reward,
            ended=terminated | truncated,
            info=info,
        )

    def reset(self) -> tuple[torch.Tensor, dict[str, Any]]:
        obs, info = self.env.reset()
        return _flat(obs)["policy"], info

    def step(self, actions: torch.Tensor) -> tuple[Any, ...]:
        step = self.advance(actions)
        return step.observations, step.rewards, step.terminated, step.truncated, step.info

    def state(self) -> torch.Tensor | None:
        return self.observe()[1]

    def render(self, *args: Any, **kwargs: Any) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def _group_space(self, name: str) -> gymnasium.Space[Any]:
        spaces = self.env.single_observation_space
        assert isinstance(spaces, gymnasium.spaces.Dict)
        return spaces[name]


class SkrlMarlEnv(MultiAgentEnvWrapper):
    """A :class:`envlab.envs.DirectMarlEnv`: everything by agent."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.env = env

    @property
    def agents(self) -> list[str]:
        return self.possible_agents

    @property
    def possible_agents(self) -> list[str]:
        return list(self.env.possible_agents)

    @property
    def observation_spaces(self) -> dict[str, gymnasium.Space[Any]]:
        return dict(self.env.observation_spaces)

    @property
    def state_spaces(self) -> dict[str, gymnasium.Space[Any] | None]:
        return dict.fromkeys(self.possible_agents, self.env.state_space)

    @property
    def action_spaces(self) -> dict[str, gymnasium.Space[Any]]:
        return dict(self.env.action_spaces)

    def observe(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor | None]]:
        """See :class:`envlab.rl.skrl.learner.SkrlEnv`."""
        seen = {agent: self.env.obs_buf[agent] for agent in self.possible_agents}
        return seen, self._shared(self.env.states())

    def advance(self, actions: dict[str, torch.Tensor]) -> Transition:
        """See :class:`envlab.rl.skrl.learner.SkrlEnv`."""
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        state = self.env.states()
        current = obs if state is None else {**obs, STATE: state}
        final = final_values(current, info)
        done = [terminated[agent] | truncated[agent] for agent in self.possible_agents]
        return Transition(
            rewards={agent: rewards[agent].unsqueeze(1).clone() for agent in rewards},
            terminated={agent: terminated[agent].unsqueeze(1) for agent in rewards},
            truncated={agent: truncated[agent].unsqueeze(1) for agent in rewards},
            final_observations={agent: final[agent] for agent in self.possible_agents},
            final_states=self._shared(final.get(STATE)),
            observations=obs,
            states=self._shared(state),
            returns=functools.reduce(torch.add, rewards.values()),
            ended=functools.reduce(torch.logical_and, done),
            info=info,
        )

    def reset(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        obs, info = self.env.reset()
        return obs, info

    def step(self, actions: dict[str, torch.Tensor]) -> tuple[Any, ...]:
        step = self.advance(actions)
        return step.observations, step.rewards, step.terminated, step.truncated, step.info

    def state(self) -> dict[str, torch.Tensor | None]:
        return self.observe()[1]

    def render(self, *args: Any, **kwargs: Any) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def _shared(self, state: torch.Tensor | None) -> dict[str, torch.Tensor | None]:
        return dict.fromkeys(self.possible_agents, state)


def final_values(
    obs: Mapping[str, torch.Tensor], info: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """Return observations by group, of the states in which episodes ended where they did."""
    if "final_obs" not in info:
        return dict(obs)
    ended, final = info["_final_obs"], info["final_obs"]
    return {
        name: torch.where(ended.view(-1, *[1] * (values.dim() - 1)), final[name], values)
        for name, values in obs.items()
    }


def _flat(obs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return observations by group, ``(num_envs, dim)``."""
    return {name: values.flatten(1) for name, values in obs.items()}
