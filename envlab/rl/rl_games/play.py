"""Playing a policy that rl_games trained: returns over whole episodes, and the exported policy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces
from rl_games.algos_torch.model_builder import ModelBuilder
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv
from envlab.rl.command.session import Session
from envlab.rl.loop.export import ChannelsFirst, export_policy
from envlab.rl.rl_games.cfg import RlGamesCfg
from envlab.rl.rl_games.checks import check_model, fitting_checkpoint, supported_configuration
from envlab.rl.rl_games.env import RlGamesVecEnv


class RlGamesPlayer:
    """See :class:`envlab.rl.command.play.Player`."""

    def __init__(
        self, session: Session, env: VectorEnv, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        self._cfg: RlGamesCfg = session.agent_cfg
        self._env, self._device = env, context.device
        check_model(self._cfg, env)
        self._vec_env = RlGamesVecEnv(env, self._cfg.params.env, has_central_value=False)
        with supported_configuration():
            self._model = build_model(self._cfg, self._vec_env).to(context.device).eval()
        with fitting_checkpoint():
            self._model.load_state_dict(values["model"]["networks"])
        self._memory: Any = None
        if self._model.is_rnn():
            self._memory = [part.to(context.device) for part in self._model.get_default_rnn_state()]

    def act(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        if self._memory is not None and self._cfg.params.config.zero_rnn_on_done:
            has_begun = (self._env.episode_length_buf == 0).to(self._device)
            self._memory = [part.masked_fill(has_begun[:, None], 0.0) for part in self._memory]
        actions = self._best(self._vec_env.pack(obs)["obs"])
        return actions.to(self._env.device)

    def export(self, directory: Path) -> list[Path]:
        space = self._vec_env.pack.spaces["obs"]
        policy = self._exported(space)
        if policy is None:
            print(
                "Not exported: only policies without memory, of plain layers, on one vector or "
                "image, can be."
            )
            return []
        self._model.cpu()
        self._device = torch.device("cpu")
        clip = self._cfg.params.env.clip_observations
        return export_policy(
            policy, lambda obs: self._best(obs.clamp(-clip, clip)), space.shape or (), directory
        )

    def _best(self, obs: Any) -> torch.Tensor:
        """Return the actions for packed observations, within the environment's bounds."""
        obs = obs.to(self._device) if isinstance(obs, torch.Tensor) else obs
        if self._cfg.is_sac:
            actions = self._model.actor(self._model.norm_obs(obs)).mean
        else:
            batch = {"is_train": False, "prev_actions": None, "obs": obs}
            result = self._model(batch | {"rnn_states": self._memory})
            if self._memory is not None:
                self._memory = result["rnn_states"]
            logits = result.get("logits")
            if isinstance(logits, list):
                return torch.stack([part.argmax(dim=-1) for part in logits], dim=-1)
            if logits is not None:
                return logits.argmax(dim=-1)
            actions = result["mus"]
            if self._cfg.params.model.name == "continuous_a2c_tanh":
                actions = actions.tanh()
        return self._bounds()(actions)

    def _bounds(self) -> Bounds:
        is_scaled = self._cfg.is_sac or self._cfg.params.config.clip_actions
        return Bounds(self._cfg.params.env.clip_actions, is_scaled=is_scaled)

    def _exported(self, space: spaces.Space) -> nn.Module | None:
        """Return the policy as plain layers, which can be scripted; None where it has others."""
        if self._memory is not None or not isinstance(space, spaces.Box):
            return None
        clip = self._cfg.params.env.clip_observations
        layers: list[nn.Module] = [nn.Hardtanh(-clip, clip)] if math.isfinite(clip) else []
        if self._model.normalize_input:
            layers.append(FixedNormaliser(self._model.running_mean_std))
        network = self._model.a2c_network if not self._cfg.is_sac else self._model.sac_network
        is_image = len(space.shape) == 3
        if len(space.shape) not in (1, 3) or is_image != getattr(network, "has_cnn", False):
            return None
        if self._cfg.is_sac:
            return nn.Sequential(
                *layers, network.actor.trunk, FirstHalf(), nn.Tanh(), self._bounds()
            )
        if not isinstance(getattr(network, "actor_mlp", None), nn.Sequential):
            return None
        if is_image:
            if not network.permute_input:
                return None
            layers += [ChannelsFirst(), network.actor_cnn, nn.Flatten()]
        layers.append(network.actor_mlp)
        if network.is_multi_discrete:
            return nn.Sequential(*layers, Choices(network.logits))
        if network.is_discrete:
            return nn.Sequential(*layers, network.logits, Choice())
        layers += [network.mu, network.mu_act]
        if self._cfg.params.model.name == "continuous_a2c_tanh":
            layers.append(nn.Tanh())
        return nn.Sequential(*layers, self._bounds())


def build_model(cfg: RlGamesCfg, vec_env: RlGamesVecEnv) -> Any:
    """Return the policy's model, untrained."""
    params, info = cfg.for_library(), vec_env.get_env_info()
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
    build_config = {
        "actions_num": num_actions,
        "input_shape": shape,
        "normalize_input": cfg.params.config.normalize_input,
    }
    if cfg.is_sac:
        build_config |= {"obs_dim": shape[0], "action_dim": num_actions}
    else:
        build_config |= {
            "num_seqs": vec_env.env.num_envs,
            "value_size": 1,
            "normalize_value": cfg.params.config.normalize_value,
        }
    return ModelBuilder().load(params).build(build_config)


class FixedNormaliser(nn.Module):
    """rl_games' normaliser of observations, as it stood at the end of training."""

    def __init__(self, trained: Any) -> None:
        super().__init__()
        variance = trained.running_var.float().cpu() + 1e-5  # the library's own constant
        self.mean = nn.Buffer(trained.running_mean.float().cpu().clone())
        self.deviation = nn.Buffer(variance.sqrt())

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return ((obs - self.mean) / self.deviation).clamp(-5.0, 5.0)


class Bounds(nn.Module):
    """Actions in [-1, 1] scaled to the environment's bounds, and clipped as in training."""

    def __init__(self, bound: float, *, is_scaled: bool) -> None:
        super().__init__()
        self._bound, self._is_scaled = bound, is_scaled

    def forward(self, actions: torch.Tensor) -> torch.Tensor:
        if self._is_scaled:
            actions = actions.clamp(-1.0, 1.0) * self._bound
        return actions.clamp(-self._bound, self._bound)


class FirstHalf(nn.Module):
    """The means of SAC's actor, whose last layer gives means and deviations."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values.chunk(2, dim=-1)[0]


class Choice(nn.Module):
    """The most likely option."""

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return logits.argmax(dim=-1)


class Choices(nn.Module):
    """The most likely option of each of several choices."""

    def __init__(self, heads: nn.ModuleList) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.stack([head(hidden).argmax(dim=-1) for head in self.heads], dim=-1)
