"""Self-imitation: Oh et al., "Self-Imitation Learning", 2018, in addition to A2C or PPO."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils import clip_grad_norm_

from envlab.skrl.torch.memory import QuickMemory
from envlab_populations.hogwild.cfg import ImitationCfg
from envlab_populations.hogwild.returns import discounted_returns
from envlab_populations.hogwild.sharing import parameters_of


def with_imitation(stock: Any, cfg: ImitationCfg) -> Any:
    """Return an agent's class that also imitates episodes which were better than its values.

    Whole episodes are kept with their returns R. The losses of batches of them are
    -log π(a|s) max(R - V(s), 0) and ½ max(R - V(s), 0)² (equations 2 and 3), each times its scale.
    """

    class WithImitation(stock):  # type: ignore[misc]
        def init(self, *, trainer_cfg: Any = None) -> None:
            super().init(trainer_cfg=trainer_cfg)
            self.episodes: list[list[tuple[torch.Tensor, ...]]] = []
            self.imitated = QuickMemory(
                memory_size=cfg.size, num_envs=1, device=self.device, use_cer=cfg.use_cer
            )
            for name, size in (
                ("observations", self.observation_space),
                ("actions", self.action_space),
                ("returns", 1),
            ):
                self.imitated.create_tensor(name, size=size, dtype=torch.float32)

        def record_transition(
            self,
            *,
            observations: Any,
            actions: Any,
            rewards: Any,
            terminated: Any,
            truncated: Any,
            timestep: int,
            timesteps: int,
            **rest: Any,
        ) -> None:
            self.episodes = self.episodes or [[] for _ in range(len(rewards))]
            ended = (terminated | truncated).flatten().tolist()
            shaper = self.cfg.rewards_shaper
            scaled = rewards if shaper is None else shaper(rewards, timestep, timesteps)
            for env, episode in enumerate(self.episodes):
                step = (observations[env], actions[env], scaled[env])
                episode.append(tuple(value.clone() for value in step))
                if ended[env]:
                    self._keep(episode)
                    self.episodes[env] = []
            super().record_transition(
                observations=observations,
                actions=actions,
                rewards=rewards,
                terminated=terminated,
                truncated=truncated,
                timestep=timestep,
                timesteps=timesteps,
                **rest,
            )

        def update(self, *, timestep: int, timesteps: int) -> None:
            super().update(timestep=timestep, timesteps=timesteps)
            for _ in range(cfg.num_batches if len(self.imitated) else 0):
                names = ["observations", "actions", "returns"]
                batch = self.imitated.sample(names, batch_size=cfg.batch_size)[0]
                for _ in range(cfg.steps_per_batch):
                    self.imitate(*batch)

        def _keep(self, episode: list[tuple[torch.Tensor, ...]]) -> None:
            observations, actions, rewards = (
                torch.stack(values) for values in zip(*episode, strict=True)
            )
            ended = torch.zeros_like(rewards, dtype=torch.bool)
            returns = discounted_returns(rewards, ended, self.cfg.discount_factor)
            last = slice(-cfg.size, None)  # for an episode longer than the memory
            for step in zip(observations[last], actions[last], returns[last], strict=True):
                values = zip(("observations", "actions", "returns"), step, strict=True)
                self.imitated.add_samples(**{name: value.view(1, -1) for name, value in values})

        def imitate(self, observations: Any, actions: Any, returns: Any) -> None:
            inputs = {"observations": self._observation_preprocessor(observations)}
            _, outputs = self.policy.act({**inputs, "taken_actions": actions}, role="policy")
            values, _ = self.value.act(inputs, role="value")
            better = (self._value_preprocessor(returns) - values).clamp(min=0.0)
            policy_loss = -(outputs["log_prob"] * better.detach()).mean()
            value_loss = 0.5 * better.square().mean()
            loss = cfg.policy_loss_scale * policy_loss + cfg.value_loss_scale * value_loss
            self.optimizer.zero_grad()
            loss.backward()
            if self.cfg.grad_norm_clip > 0:
                clip_grad_norm_(parameters_of(self.optimizer), self.cfg.grad_norm_clip)
            self.optimizer.step()
            self.track_data("Loss / Imitation loss (policy)", policy_loss.item())
            self.track_data("Loss / Imitation loss (value)", value_loss.item())

    return WithImitation
