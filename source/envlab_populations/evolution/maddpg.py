"""MADDPG and MATD3 as agents of skrl: several actors and critics in one policy and one critic.

Lowe et al., "Multi-Agent Actor-Critic for Mixed Cooperative-Competitive Environments" (2017), and
Ackermann et al., "Reducing Overestimation Bias in Multi-Agent Domains Using Double Centralized
Critics" (2019). Each agent's actor sees its own observation, and its critic all observations and
actions. Rows are those of :mod:`envlab_populations.crew`.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from envlab.distributed.context import DistributedContext
from envlab.skrl.agents import agent_class
from envlab.skrl.env import Spaces
from envlab.skrl.library import load_skrl
from envlab.skrl.torch.heads import BoundedPolicy, Critic, Head, MakeBody

load_skrl()

from skrl import config  # noqa: E402

ROLES = {
    "maddpg": ("policy", "target_policy", "critic", "target_critic"),
    "matd3": (
        *("policy", "target_policy", "critic_1", "critic_2"),
        *("target_critic_1", "target_critic_2"),
    ),
}
_Ddpg: Any = agent_class("ddpg", "torch", {})
_Td3: Any = agent_class("td3", "torch", {})


class JointPolicy(BoundedPolicy):
    """An actor for each agent, which sees that agent's observation."""

    net: nn.ModuleList

    def _make_net(self, make_body: MakeBody) -> nn.Module:
        crew: Any = self.observation_space
        sizes = zip(crew.observed.values(), crew.acted.values(), strict=True)
        return nn.ModuleList(make_body((seen,), 0, acted) for seen, acted in sizes)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        """Return the actions of all agents, ``(batch, num_actions)``."""
        crew: Any = self.observation_space
        first, outputs = len(crew.observed), []
        for net, size in zip(self.net, crew.observed.values(), strict=True):
            outputs.append(net(inputs["observations"][:, first : first + size]))
            first += size
        return self.to_bounds(torch.cat(outputs, 1).tanh()), {}


class JointCritic(Critic):
    """A critic for each agent, which sees all observations and actions."""

    net: nn.ModuleList

    def _make_net(self, make_body: MakeBody) -> nn.Module:
        crew: Any = self.observation_space
        self.num_extra = self.num_actions
        self.count, seen = len(crew.observed), sum(crew.observed.values())
        ends = itertools.accumulate(crew.acted.values(), initial=0)
        self.parts = list(itertools.pairwise(ends))
        return nn.ModuleList(make_body((seen,), self.num_extra, 1) for _ in crew.observed)

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        """Return the agents' critics' values of the same actions, ``(batch, num_agents)``."""
        unit = (inputs["taken_actions"] - self.middle) * self.factor
        seen = inputs["observations"][:, self.count :]
        return torch.cat([net(seen, unit) for net in self.net], 1), {}

    def of_own(
        self, observations: torch.Tensor, own: torch.Tensor, taken: torch.Tensor
    ) -> torch.Tensor:
        """Return each critic's value if its agent alone acts differently, ``(batch, num_agents)``.

        Args:
            observations: Observations, ``(batch, dim)``.
            own: Each agent's own actions, ``(batch, num_actions)``; only they get gradients.
            taken: The others' actions, ``(batch, num_actions)``.
        """
        own, taken = ((a - self.middle) * self.factor for a in (own, taken))
        seen = observations[:, self.count :]
        self.net.requires_grad_(False)
        values = [
            net(seen, torch.cat((taken[:, :first], own[:, first:last], taken[:, last:]), 1))
            for net, (first, last) in zip(self.net, self.parts, strict=True)
        ]
        self.net.requires_grad_(True)
        return torch.cat(values, 1)


class Crew:
    """The updates of MADDPG and MATD3, over the parts of skrl's DDPG and TD3."""

    critics: tuple[str, ...]
    """Attributes of the critics; their smallest value counts, and the first trains the policy."""
    _update_counter = 0

    def update(self: Any, *, timestep: int, timesteps: int) -> None:
        """Make gradient steps, each on a batch from the memory."""
        for _ in range(self.cfg.gradient_steps):
            names, size = self._tensors_names, self.cfg.batch_size
            self.learn(self.memory.sample(names=names, batch_size=size)[0])

    def learn(self: Any, experiences: Any) -> None:
        """Make a gradient step.

        Args:
            experiences: A batch from the memory, ``(batch, dim)`` each: observations, states,
                actions, the agents' sum of rewards, following observations and states, and whether
                it terminated. Agents' rewards come first in the following observations.
        """
        obs, _, actions, _, following, _, terminated = experiences
        rewards = following[:, : len(self.observation_space.observed)]
        inputs = {"observations": self._observation_preprocessor(obs, train=True)}
        after = {"observations": self._observation_preprocessor(following, train=True)}
        targets = rewards + self.cfg.discount_factor * ~terminated * self._following_values(after)
        critics = [getattr(self, name) for name in self.critics]
        judged = inputs | {"taken_actions": actions}
        errors = [critic.act(judged, role="critic")[0] - targets for critic in critics]
        loss = torch.stack(errors).square().mean(1).sum()
        self._step(self.critic_optimizer, loss, critics)
        self.track_data("Loss / Critic loss", loss.item())
        self._update_counter += 1
        if self._update_counter % getattr(self.cfg, "policy_delay", 1):
            return
        own = self.policy.act(inputs, role="policy")[0]
        values = critics[0].of_own(inputs["observations"], own, actions)
        loss = -values.mean(0).sum()
        self._step(self.policy_optimizer, loss, [self.policy])
        self.track_data("Loss / Policy loss", loss.item())
        for name in ("policy", *self.critics):
            target = getattr(self, f"target_{name}")
            target.update_parameters(getattr(self, name), polyak=self.cfg.polyak)

    @torch.no_grad()
    def _following_values(self: Any, after: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the value of the following state for each agent, ``(batch, num_agents)``."""
        actions = self.target_policy.act(after, role="target_policy")[0]
        noise = getattr(self, "_smooth_regularization_noise", None)
        if noise is not None:
            smoothing = noise.sample(actions.shape)  # clipped: see envlab_populations.noise
            actions = (actions + smoothing).clamp(self._min_actions, self._max_actions)
        judged = after | {"taken_actions": actions}
        values = [
            getattr(self, f"target_{name}").act(judged, role="target_critic")[0]
            for name in self.critics
        ]
        return torch.stack(values).amin(0)

    def _step(self: Any, optimizer: Any, loss: Any, models: list[Head]) -> None:
        """Make a step of an optimizer, on the mean gradient of all processes."""
        optimizer.zero_grad()
        loss.backward()
        if config.torch.is_distributed:
            for model in models:
                model.reduce_parameters()
        if self.cfg.grad_norm_clip > 0:
            parameters = [p for model in models for p in model.parameters()]
            clip_grad_norm_(parameters, self.cfg.grad_norm_clip)
        optimizer.step()


class MADDPG(Crew, _Ddpg):
    """Lowe et al. (2017), algorithm 1."""

    critics = ("critic",)


class MATD3(Crew, _Td3):
    """Ackermann et al. (2019), algorithm 1."""

    critics = ("critic_1", "critic_2")


AGENTS = {"maddpg": MADDPG, "matd3": MATD3}


def make_joint_heads(
    algorithm: str,
    seen: Spaces,
    make_body: MakeBody,
    device: torch.device,
    context: DistributedContext,
) -> dict[str, Head]:
    """Return networks by role, see :func:`envlab.skrl.torch.heads.make_heads`."""
    heads: dict[str, Head] = {}
    for role in ROLES[algorithm]:
        kind = JointPolicy if "policy" in role else JointCritic
        heads[role] = kind(seen, make_body, device, context).to(device)
    return heads
