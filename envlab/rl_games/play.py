"""Playing a policy that rl_games trained, and exporting it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces
from rl_games.algos_torch.model_builder import ModelBuilder
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.rl_games.cfg import RlGamesCfg
from envlab.rl_games.checks import check_model, fitting_checkpoint, supported_configuration
from envlab.rl_games.env import RlGamesVecEnv, normalise_groups, pool_normalisers
from envlab.training.export import export_policy
from envlab.training.plan import RunPlan


class RlGamesPolicy(nn.Module):
    """A trained policy, from observations to the best actions in the environment's bounds.

    Attributes:
        memory: Memory of a recurrent network; None without one.
    """

    memory: Any

    def __init__(self, model: Any, cfg: RlGamesCfg) -> None:
        super().__init__()
        self._model, self._is_sac = model, cfg.is_sac
        self._clip_obs = cfg.params.env.clip_observations
        self._clip_actions = cfg.params.env.clip_actions
        self._is_choice = cfg.params.model.name == "discrete_a2c"
        self._is_tanh = cfg.params.model.name == "continuous_a2c_tanh"
        self._is_scaled = cfg.is_sac or cfg.params.config.clip_actions
        self.memory = None

    def forward(self, obs: Any) -> torch.Tensor:
        obs = self._model.norm_obs(self._scaled(obs))
        if self._is_sac:
            means_and_deviations = self._model.sac_network.actor.trunk(obs)
            return self._bounded(means_and_deviations.chunk(2, dim=-1)[0].tanh())
        output = self._model.a2c_network({"obs": obs, "rnn_states": self.memory})
        best, self.memory = output[0], output[-1]
        if isinstance(best, list):
            return torch.stack([logits.argmax(dim=-1) for logits in best], dim=-1)
        if self._is_choice:
            return best.argmax(dim=-1)
        return self._bounded(best.tanh() if self._is_tanh else best)

    def sample(self, obs: Any) -> torch.Tensor:
        """Return actions drawn from the policy's distribution, as in training."""
        obs = self._scaled(obs)
        if self._is_sac:
            return self._bounded(self._model.actor(self._model.norm_obs(obs)).sample())
        result = self._model({"is_train": False, "obs": obs, "rnn_states": self.memory})
        actions, self.memory = result["actions"], result["rnn_states"]
        return self._bounded(actions) if actions.is_floating_point() else actions

    def _scaled(self, obs: Any) -> Any:
        """Return observations, or a dict of them, as rl_games' agents pass them to a network."""
        if isinstance(obs, dict):
            return {name: self._scaled(values) for name, values in obs.items()}
        if obs.dtype == torch.uint8:
            return obs.float() / 255.0
        return obs.clamp(-self._clip_obs, self._clip_obs)

    def _bounded(self, actions: torch.Tensor) -> torch.Tensor:
        """Return actions scaled to the environment's bounds, and clipped as in training."""
        if self._is_scaled:
            actions = actions.clamp(-1.0, 1.0) * self._clip_actions
        return actions.clamp(-self._clip_actions, self._clip_actions)


class RlGamesPlayer:
    """See :class:`envlab.learner.Player`."""

    def __init__(
        self, plan: RunPlan, env: BatchedEnv, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        cfg: RlGamesCfg = plan.agent_cfg
        self._env, self._device = env, context.device
        self._forgets = cfg.params.config.zero_rnn_on_done
        self._samples = not (cfg.params.config.player or {}).get("deterministic", True)
        check_model(cfg, env)
        self._vec_env = RlGamesVecEnv(env, cfg.params.env, has_central_value=False)
        with supported_configuration():
            model = build_model(cfg, self._vec_env)
            pool_normalisers(model, context)  # the library's are scripted; ONNX cannot have them
            if cfg.params.config.normalize_input and isinstance(model.obs_shape, dict):
                normalise_groups(model, context)
        with fitting_checkpoint():
            model.load_state_dict(values["model"]["networks"])
        self._policy = RlGamesPolicy(model, cfg).to(context.device).eval()
        if model.is_rnn():
            memory = model.get_default_rnn_state()
            self._policy.memory = [part.to(context.device) for part in memory]

    def act(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        policy = self._policy
        if policy.memory is not None and self._forgets:
            has_begun = (self._env.episode_length_buf == 0).to(self._device)
            policy.memory = [part.masked_fill(has_begun[:, None], 0.0) for part in policy.memory]
        packed = self._vec_env.pack(obs)["obs"]
        if isinstance(packed, dict):
            packed = {name: values.to(self._device) for name, values in packed.items()}
        else:
            packed = packed.to(self._device)
        act = policy.sample if self._samples else policy
        return act(packed).to(self._env.device)

    def export(self, directory: Path) -> list[Path]:
        space = self._vec_env.pack.spaces["obs"]
        if self._policy.memory is not None:
            print("Not exported: only policies without memory can be.")
            return []
        policy = self._policy.cpu()
        seen = space if isinstance(space, spaces.Dict) else space.shape or ()
        return export_policy(policy, policy, seen, directory, is_traced=True)


def build_model(cfg: RlGamesCfg, vec_env: RlGamesVecEnv) -> Any:
    """Return the policy's model, untrained."""
    info = vec_env.get_env_info()
    obs_space, action_space = info["observation_space"], info["action_space"]
    if isinstance(obs_space, spaces.Dict):
        shape: Any = {name: space.shape for name, space in obs_space.spaces.items()}
    else:
        shape = obs_space.shape
    if isinstance(action_space, spaces.Tuple):
        num_actions: Any = [int(space.n) for space in action_space]
    elif isinstance(action_space, spaces.Discrete):
        num_actions = int(action_space.n)
    else:
        num_actions = action_space.shape[0]
    config = {
        "actions_num": num_actions,
        "input_shape": shape,
        "normalize_input": cfg.params.config.normalize_input and not isinstance(shape, dict),
    }
    if cfg.is_sac:
        config |= {"obs_dim": shape[0], "action_dim": num_actions}
    else:
        config |= {
            "num_seqs": vec_env.env.num_envs,
            "normalize_value": cfg.params.config.normalize_value,
        }
    return ModelBuilder().load(cfg.for_library()).build(config)
