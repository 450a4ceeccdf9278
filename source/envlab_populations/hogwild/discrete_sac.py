"""SAC of discrete actions: Christodoulou, "Soft Actor-Critic for Discrete Action Settings", 2019.

As in SLM-Lab 5, the mean of two critics replaces the paper's smaller one (Zhou et al.,
"Revisiting Discrete Soft Actor-Critic", 2022, which finds the smaller one too low).
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from envlab_populations.hogwild.cfg import HogwildCfg

TARGET_SHARE = 0.6
"""Share of the largest entropy that the temperature aims at; SLM-Lab's."""
LEAST_LOG_TEMPERATURE = -5.0
"""Smallest logarithm of the temperature; SLM-Lab's."""
CRITICS = ("critic_1", "critic_2")


def discrete_sac_class(stock: Any, cfg: HogwildCfg) -> Any:
    """Return an agent's class from skrl's DQN, with that agent's memory."""
    loss_of = functional.smooth_l1_loss if cfg.loss == "huber" else functional.mse_loss
    clip = float(cfg.settings.get("grad_norm_clip", 0.0))
    rates = cfg.settings.get("learning_rate", 1e-3)
    actor_rate, critic_rate, entropy_rate = rates if isinstance(rates, list) else [rates] * 3

    class DiscreteSac(stock):  # type: ignore[misc]
        def __init__(self, **values: Any) -> None:
            super().__init__(**values)
            models = self.models
            self.policy, self.critics = models["policy"], [models[name] for name in CRITICS]
            self.targets = [models[t] for name in CRITICS if (t := f"target_{name}") in models]
            for critic, target in zip(self.critics, self.targets, strict=False):
                target.freeze_parameters(True)
                target.update_parameters(critic, polyak=1.0)
            alpha = float(cfg.settings.get("initial_entropy_value", 1.0))
            self.log_entropy_coefficient = torch.tensor(
                [math.log(alpha)], device=self.device, requires_grad=True
            )
            self.policy_optimizer = torch.optim.Adam(self.policy.parameters(), lr=actor_rate)
            both = itertools.chain.from_iterable(one.parameters() for one in self.critics)
            self.critic_optimizer = torch.optim.Adam(both, lr=critic_rate)
            temperature = [self.log_entropy_coefficient]
            self.entropy_optimizer = torch.optim.Adam(temperature, lr=entropy_rate)
            names = ("policy_optimizer", "critic_optimizer", "entropy_optimizer")
            self.checkpoint_modules |= models | {name: getattr(self, name) for name in names}

        @property
        def alpha(self) -> torch.Tensor:
            """The temperature, ``(1,)``."""
            return self.log_entropy_coefficient.detach().exp()

        def act(
            self, observations: Any, states: Any, *, timestep: int, timesteps: int
        ) -> tuple[torch.Tensor, dict[str, Any]]:
            inputs = {"observations": self._observation_preprocessor(observations)}
            if timestep < self.cfg.random_timesteps:
                return self.policy.random_act(inputs, role="policy")  # type: ignore[no-any-return]
            return self.policy.act(inputs, role="policy")  # type: ignore[no-any-return]

        def update(self, *, timestep: int, timesteps: int) -> None:
            for _ in range(self.cfg.gradient_steps):
                batch = self.memory.sample(self._tensors_names, batch_size=self.cfg.batch_size)[0]
                observations, _, actions, rewards, next_observations, _, terminated = batch
                inputs = {"observations": self._observation_preprocessor(observations, train=True)}
                following = {"observations": self._observation_preprocessor(next_observations)}
                with torch.no_grad():
                    future = self.soft_values(following) * ~terminated
                targets = rewards + self.cfg.discount_factor * future
                values = self.learn_values(inputs, actions.long(), targets)
                self.learn_policy(inputs, values)
                for critic, target in zip(self.critics, self.targets, strict=False):
                    target.update_parameters(critic, polyak=self.cfg.polyak)

        def soft_values(self, inputs: dict[str, Any]) -> torch.Tensor:
            """Return V(s), sums over actions of π(a|s) (Q(s, a) - α log π(a|s)), ``(batch, 1)``.

            The paper's equation 10.
            """
            values = sum(one.act(inputs, role="critic")[0] for one in self.targets) / 2.0
            return self._expected(self._log_probs(inputs), values)

        def _expected(self, log_probs: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            return (log_probs.exp() * (values - self.alpha * log_probs)).sum(1, keepdim=True)

        def _log_probs(self, inputs: dict[str, Any]) -> torch.Tensor:
            return self.policy.compute(inputs, "policy")[0].log_softmax(dim=1)  # type: ignore[no-any-return]

        def learn_values(
            self, inputs: dict[str, Any], actions: torch.Tensor, targets: torch.Tensor
        ) -> torch.Tensor:
            """Step the critics, and return the mean of their values, ``(batch, num_actions)``."""
            found = [critic.act(inputs, role="critic")[0] for critic in self.critics]
            return self._step_values(found, actions, targets)

        def _step_values(
            self, found: list[torch.Tensor], actions: torch.Tensor, targets: torch.Tensor
        ) -> torch.Tensor:
            chosen = [values.gather(1, actions) for values in found]
            loss = loss_of(chosen[0], targets) + loss_of(chosen[1], targets)
            if hasattr(self.memory, "learn"):  # with priorities, as in SLM-Lab
                self.memory.learn(targets - torch.minimum(*chosen))
            self._step(self.critic_optimizer, loss, *self.critics)
            self.track_data("Loss / Critic loss", loss.item())
            return (found[0] + found[1]).detach() / 2.0

        def learn_policy(self, inputs: dict[str, Any], values: torch.Tensor) -> None:
            """Step the policy (the paper's equation 12) and the temperature (11)."""
            log_probs = self._log_probs(inputs)
            probs = log_probs.exp()
            loss = (probs * (self.alpha * log_probs - values)).sum(1).mean()
            self._step(self.policy_optimizer, loss, self.policy)
            entropy = -(probs * log_probs).sum(1).mean().detach()
            self.track_data("Loss / Policy loss", loss.item())
            self.track_data("Policy / Entropy", entropy.item())
            if not cfg.settings.get("learn_entropy", True):
                return
            target = TARGET_SHARE * math.log(probs.shape[1])
            self.entropy_optimizer.zero_grad()
            (self.log_entropy_coefficient.exp() * (entropy - target)).sum().backward()
            self.entropy_optimizer.step()
            with torch.no_grad():
                self.log_entropy_coefficient.clamp_(LEAST_LOG_TEMPERATURE, cfg.log_alpha_max)
            self.track_data("Coefficient / Entropy coefficient", self.alpha.item())

        def _step(self, optimizer: Any, loss: torch.Tensor, *networks: nn.Module) -> None:
            optimizer.zero_grad()
            loss.backward()
            if clip > 0:
                for network in networks:
                    clip_grad_norm_(network.parameters(), clip)
            optimizer.step()

    return DiscreteSac
