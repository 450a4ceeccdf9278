"""CrossQ: Bhatt et al., "CrossQ: Batch Normalization in Deep Reinforcement Learning", ICLR 2024.

SAC without target networks: a critic judges actions and next actions in one batch, so that its
batch norms see both. The second half of its values, without gradients, makes the targets of the
first. The policy is judged by the running statistics, and learns every ``policy_delay`` steps.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from envlab_populations.hogwild.cfg import HogwildCfg
from envlab_populations.hogwild.discrete_sac import LEAST_LOG_TEMPERATURE, discrete_sac_class


def judged_together(
    critics: list[Any], now: dict[str, torch.Tensor], then: dict[str, torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return each critic's current values, and the next ones without gradients.

    Args:
        critics: The critics, whose statistics learn from both.
        now: Inputs of the transitions.
        then: Inputs of the next states.
    """
    joint = {name: torch.cat((now[name], then[name])) for name in now}
    current, following = [], []
    for critic in critics:
        critic.train()
        first, second = critic.act(joint, role="critic")[0].chunk(2)
        critic.eval()
        current.append(first)
        following.append(second.detach())
    return current, following


def crossq_class(stock: Any, cfg: HogwildCfg) -> Any:
    """Return an agent's class from skrl's SAC, for continuous actions."""
    loss_of = functional.smooth_l1_loss if cfg.loss == "huber" else functional.mse_loss
    clip = float(cfg.settings.get("grad_norm_clip", 0.0))

    class CrossQ(stock):  # type: ignore[misc]
        _entropy_coefficient: Any

        def update(self, *, timestep: int, timesteps: int) -> None:
            for _ in range(self.cfg.gradient_steps):
                batch = self.memory.sample(self._tensors_names, batch_size=self.cfg.batch_size)[0]
                observations, _, actions, rewards, next_observations, _, terminated = batch
                seen = self._observation_preprocessor(observations, train=True)
                following = self._observation_preprocessor(next_observations, train=True)
                self.policy.eval()
                self.learn_values(seen, actions, rewards, following, terminated)
                self._update_counter = getattr(self, "_update_counter", 0) + 1
                if self._update_counter % cfg.policy_delay == 0:
                    self.learn_policy(seen)

        def learn_values(
            self,
            seen: torch.Tensor,
            actions: torch.Tensor,
            rewards: torch.Tensor,
            following: torch.Tensor,
            terminated: torch.Tensor,
        ) -> None:
            """Step the critics: the paper's equations 3 and 4."""
            with torch.no_grad():
                next_actions, outputs = self.policy.act({"observations": following}, role="policy")
            now = {"observations": seen, "taken_actions": actions}
            then = {"observations": following, "taken_actions": next_actions}
            current, future = judged_together([self.critic_1, self.critic_2], now, then)
            soft = torch.minimum(*future) - self._entropy_coefficient * outputs["log_prob"]
            targets = rewards + self.cfg.discount_factor * ~terminated * soft
            loss = loss_of(current[0], targets) + loss_of(current[1], targets)
            self._step(self.critic_optimizer, loss, self.critic_1, self.critic_2)
            self.track_data("Loss / Critic loss", loss.item())

        def learn_policy(self, seen: torch.Tensor) -> None:
            """Step the policy and the temperature, as in SAC."""
            self.policy.train()
            actions, outputs = self.policy.act({"observations": seen}, role="policy")
            self.policy.eval()
            log_prob, judged = outputs["log_prob"], {"observations": seen, "taken_actions": actions}
            critics = (self.critic_1, self.critic_2)
            values = torch.minimum(*(critic.act(judged, role="critic")[0] for critic in critics))
            loss = (self._entropy_coefficient * log_prob - values).mean()
            self._step(self.policy_optimizer, loss, self.policy)
            self.track_data("Loss / Policy loss", loss.item())
            if not self.cfg.learn_entropy:
                return
            excess = (log_prob + self._target_entropy).detach()
            self.entropy_optimizer.zero_grad()
            (-self.log_entropy_coefficient.exp() * excess).mean().backward()
            self.entropy_optimizer.step()
            with torch.no_grad():
                self.log_entropy_coefficient.clamp_(LEAST_LOG_TEMPERATURE, cfg.log_alpha_max)
            self._entropy_coefficient = self.log_entropy_coefficient.detach().exp()
            self.track_data("Coefficient / Entropy coefficient", self._entropy_coefficient.item())

        def _step(self, optimizer: Any, loss: torch.Tensor, *networks: Any) -> None:
            optimizer.zero_grad()
            loss.backward()
            if clip > 0:
                for network in networks:
                    torch.nn.utils.clip_grad_norm_(network.parameters(), clip)
            optimizer.step()

    return CrossQ


def discrete_crossq_class(stock: Any, cfg: HogwildCfg) -> Any:
    """Return an agent's class from skrl's DQN: SAC of discrete actions, judged together."""
    base = discrete_sac_class(stock, cfg)

    class DiscreteCrossQ(base):  # type: ignore[misc, valid-type]
        def update(self, *, timestep: int, timesteps: int) -> None:
            for _ in range(self.cfg.gradient_steps):
                batch = self.memory.sample(self._tensors_names, batch_size=self.cfg.batch_size)[0]
                observations, _, actions, rewards, next_observations, _, terminated = batch
                inputs = {"observations": self._observation_preprocessor(observations, train=True)}
                following = {"observations": self._observation_preprocessor(next_observations)}
                self.policy.eval()
                current, future = judged_together(self.critics, inputs, following)
                with torch.no_grad():
                    soft = self._expected(self._log_probs(following), sum(future) / 2.0)
                targets = rewards + self.cfg.discount_factor * soft * ~terminated
                values = self._step_values(current, actions.long(), targets)
                self._update_counter = getattr(self, "_update_counter", 0) + 1
                if self._update_counter % cfg.policy_delay == 0:
                    self.policy.train()
                    self.learn_policy(inputs, values)
                    self.policy.eval()

    return DiscreteCrossQ
