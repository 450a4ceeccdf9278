"""PPO's update as graphs: each decision is a tensor, and the host reads once, at the end.

skrl's own update reads two losses in each minibatch and the divergence nine times in each epoch.
This class does the same arithmetic (skrl 2.1.1, ``PPO.update``) without reading, so one minibatch
can be recorded and repeated for all others (:mod:`envlab.sim.recording`). It draws the order of
samples on the device of the learner; skrl draws it on the CPU.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import OWN_STREAM, PolicyDDP
from envlab.distributed.readings import Readings
from envlab.sim.recording import NewGraphs, cuda_graphs, recording_of_updates
from envlab.skrl.library import load_skrl
from envlab.skrl.torch.ranks import pooled_advantages
from envlab.training.adaptive_rate import AdaptiveRate

load_skrl()

from skrl.agents.torch.ppo.ppo import PPO, compute_gae  # noqa: E402
from skrl.models.torch import GaussianMixin  # noqa: E402
from skrl.resources.schedulers.torch import KLAdaptiveLR  # noqa: E402


def obstacle(agent: Any) -> str | None:
    """Return why an agent's update cannot be recorded, as a part of a sentence; None: it can."""
    if not isinstance(agent, PPO):
        return f"--algorithm {type(agent).__name__.lower()} has its own update"
    cfg, memory = agent.cfg, agent.memory
    if cfg.mixed_precision:
        return "agent.agent.mixed_precision scales losses by a number that the host keeps"
    if cfg.kl_threshold:
        return "agent.agent.kl_threshold ends an epoch by a number that the host reads"
    if agent.scheduler is not None and not isinstance(agent.scheduler, KLAdaptiveLR):
        name = type(agent.scheduler).__name__
        return f"agent.agent.learning_rate_scheduler {name} keeps its rate on the host"
    if isinstance(agent.policy, PolicyDDP):
        return OWN_STREAM
    if not isinstance(agent.policy, GaussianMixin):
        return f"agent.models.policy is a {type(agent.policy).__name__}, not a Gaussian"
    num_samples = cfg.rollouts * memory.num_envs
    if memory.memory_size != cfg.rollouts or num_samples % cfg.mini_batches:
        return "agent.agent.mini_batches are not equal parts of a rollout"
    return None


class RecordedUpdate:
    """Takes the place of an agent's ``update``."""

    def __init__(
        self,
        agent: Any,
        context: DistributedContext,
        readings: Readings,
        new_graphs: NewGraphs = cuda_graphs,
        *,
        is_required: bool = False,
    ) -> None:
        """Record, beginning with the first minibatches.

        Args:
            agent: skrl's agent, which has no :func:`obstacle`.
            context: The process's context.
            readings: The other values that the host reads together with the losses.
            new_graphs: See :data:`NewGraphs`.
            is_required: Whether an update that cannot be recorded is an error; else it is made
                without graphs.
        """
        self._agent, self._context, self._readings = agent, context, readings
        self._compute_gae = pooled_advantages(compute_gae, context)
        self._rate = AdaptiveRate(agent.optimizer, agent.device)
        memory = agent.memory
        self._size = memory.memory_size * memory.num_envs // agent.cfg.mini_batches
        self._rows = torch.zeros(self._size, dtype=torch.int64, device=agent.device)
        # Losses of policy, value and entropy; divergences; the last deviation of actions.
        self._sums, self._divergences, self._deviation = (
            torch.zeros(shape, dtype=torch.float64, device=agent.device) for shape in ((3,), (), ())
        )
        self.recordings = {
            counts: recording_of_updates(
                functools.partial(self._minibatch, counts), new_graphs, is_required=is_required
            )
            for counts in (True, False)
        }
        """By whether the normalisers of observations count the minibatch."""

    def forget(self) -> None:
        """Record again: the optimizer has other memory, such as a checkpoint's."""
        for recording in self.recordings.values():
            recording.forget()

    def __call__(self, *, timestep: int, timesteps: int) -> None:
        """Update the networks, and track what skrl tracks."""
        agent, num_epochs = self._agent, self._agent.cfg.learning_epochs
        self._keep_returns()
        self._sums.zero_()
        self._rate.begin(agent.optimizer.param_groups[0]["lr"])
        for epoch in range(num_epochs):
            self._divergences.zero_()
            for rows in agent.memory.order().split(self._size):
                self._rows.copy_(rows)
                self.recordings[epoch == 0].run()
            if agent.scheduler is not None:
                self._adapt_rate()
        read = torch.cat((self._sums, torch.stack((self._deviation, self._rate.value))))
        *losses, deviation, rate = self._readings.read(read)
        self._rate.end(rate)
        for name, loss in zip(("Policy", "Value", "Entropy"), losses, strict=True):
            if name != "Entropy" or agent.cfg.entropy_loss_scale:
                mean = loss / (num_epochs * agent.cfg.mini_batches)
                agent.track_data(f"Loss / {name} loss", mean)
        agent.track_data("Policy / Standard deviation", deviation)
        if agent.scheduler is not None:
            # private: torch's schedulers have no other name for it
            agent.scheduler._last_lr = [rate]
            agent.track_data("Learning / Learning rate", rate)

    @torch.no_grad()
    def _keep_returns(self) -> None:
        """Write returns and advantages into the memory."""
        agent, memory = self._agent, self._agent.memory
        inputs = {
            "observations": agent._observation_preprocessor(agent._current_next_observations),
            "states": agent._state_preprocessor(agent._current_next_states),
        }
        agent.value.enable_training_mode(False)
        last_values, _ = agent.value.act(inputs, role="value")
        agent.value.enable_training_mode(True)
        taken = ("rewards", "terminated", "truncated", "values")
        returns, advantages = self._compute_gae(
            **{name: memory.get_tensor_by_name(name) for name in taken},
            last_values=agent._value_preprocessor(last_values, inverse=True),
            discount_factor=agent.cfg.discount_factor,
            lambda_coefficient=agent.cfg.gae_lambda,
        )
        values = agent._value_preprocessor(memory.get_tensor_by_name("values"), train=True)
        memory.set_tensor_by_name("values", values)
        memory.set_tensor_by_name("returns", agent._value_preprocessor(returns, train=True))
        memory.set_tensor_by_name("advantages", advantages)

    def _minibatch(self, counts: bool) -> None:
        agent, cfg, views = self._agent, self._agent.cfg, self._agent.memory.tensors_view
        # private: skrl's list of what a minibatch has; states are not there for every task
        chosen = {
            name: views[name].index_select(0, self._rows)
            for name in agent._tensors_names
            if name in views
        }
        inputs = {
            "observations": agent._observation_preprocessor(chosen["observations"], train=counts),
            "states": agent._state_preprocessor(chosen.get("states"), train=counts),
        }
        _, outputs = agent.policy.act({**inputs, "taken_actions": chosen["actions"]}, role="policy")
        log_ratio = outputs["log_prob"] - chosen["log_prob"]
        ratio, advantages = torch.exp(log_ratio), chosen["advantages"]
        clipped = advantages * torch.clip(ratio, 1.0 - cfg.ratio_clip, 1.0 + cfg.ratio_clip)
        policy_loss = -torch.min(advantages * ratio, clipped).mean()
        entropy_loss = torch.zeros_like(policy_loss)
        if cfg.entropy_loss_scale:
            entropy = agent.policy.get_entropy(role="policy").mean()
            entropy_loss = -cfg.entropy_loss_scale * entropy
        values, _ = agent.value.act(inputs, role="value")
        if cfg.value_clip > 0:
            change = torch.clip(values - chosen["values"], -cfg.value_clip, cfg.value_clip)
            values = chosen["values"] + change
        value_loss = cfg.value_loss_scale * functional.mse_loss(chosen["returns"], values)
        agent.optimizer.zero_grad()
        (policy_loss + entropy_loss + value_loss).backward()
        networks = dict.fromkeys((agent.policy, agent.value))  # one network may have both roles
        if self._context.is_distributed:
            for network in networks:
                network.reduce_parameters()
        if cfg.grad_norm_clip > 0:
            parameters = itertools.chain(*(network.parameters() for network in networks))
            nn.utils.clip_grad_norm_(parameters, cfg.grad_norm_clip)
        agent.optimizer.step()
        with torch.no_grad():
            self._sums += torch.stack((policy_loss, value_loss, entropy_loss))
            self._divergences += ((ratio - 1) - log_ratio).mean()
            self._deviation.copy_(agent.policy.distribution(role="policy").stddev.mean())

    def _adapt_rate(self) -> None:
        """Change the learning rate by the epoch's divergence from the policy that acted."""
        schedule, cfg = self._agent.scheduler, self._agent.cfg
        divergence = self._divergences / cfg.mini_batches
        divergence = self._context.sum(divergence) / self._context.world_size
        # private: skrl's schedulers do not name their factors otherwise
        factor = schedule._kl_factor
        self._rate.adapt(
            divergence > schedule.kl_threshold * factor,
            divergence < schedule.kl_threshold / factor,
            lowest=schedule.min_lr,
            highest=schedule.max_lr,
            factor=schedule._lr_factor,
        )
