"""Continuous PPO's minibatches as graphs: each decision is a tensor, and the host reads once.

The minibatch is the library's own ``calc_gradients`` (rl_games 1.6.5), at one address, with the
adaptive learning rate after it. The library would read the divergence in each minibatch, or in each
mini-epoch.
"""

from __future__ import annotations

from typing import Any

import torch
from rl_games.common.diagnostics import PpoDiagnostics
from rl_games.common.schedulers import AdaptiveScheduler, IdentityScheduler
from torch.utils._pytree import tree_leaves, tree_map

from envlab.distributed.ddp import OWN_STREAM
from envlab.rl_games.ppo import ContinuousAgent
from envlab.sim.recording import NewGraphs, cuda_graphs, recording_of_updates
from envlab.training.adaptive_rate import AdaptiveRate


def obstacle(agent: Any) -> str | None:
    """Return why an agent's update cannot be recorded, as a part of a sentence; None: it can."""
    if not isinstance(agent, ContinuousAgent):
        return "agent.params.algo.name is not a2c_continuous"
    if agent.is_rnn:
        return "its networks are recurrent"
    if agent.has_central_value:
        return "agent.params.config.central_value_config trains a second network"
    if agent.mixed_precision:
        return "agent.params.config.mixed_precision scales losses by a number that the host keeps"
    if isinstance(agent.diagnostics, PpoDiagnostics):
        return "agent.params.config.use_diagnostics reads each minibatch"
    if not isinstance(agent.scheduler, AdaptiveScheduler | IdentityScheduler):
        return "agent.params.config.lr_schedule keeps its rate on the host"
    if agent.uses_ddp:
        return OWN_STREAM
    if agent.model.get_aux_loss() is not None:
        return "agent.params.network has a loss of its own"
    return None


class RecordedUpdate:
    """Takes the place of an agent's ``train_actor_critic``."""

    def __init__(
        self, agent: Any, new_graphs: NewGraphs = cuda_graphs, *, is_required: bool = False
    ) -> None:
        """Record, beginning with the first minibatches.

        Args:
            agent: The library's agent, which has no :func:`obstacle`, and whose normalisers keep
                their moments in place.
            new_graphs: See :data:`NewGraphs`.
            is_required: Whether an update that cannot be recorded is an error; else it is made
                without graphs.
        """
        self._agent = agent
        self._rate = AdaptiveRate(agent.optimizer, agent.ppo_device)
        # Without one of the two names that it knows, the library leaves the rate alone.
        self._adapts_at_once, agent.schedule_type = agent.schedule_type == "legacy", "recorded"
        self._batch: dict[str, Any] = {}
        self._divergences = torch.zeros((), dtype=torch.float64, device=agent.ppo_device)
        self._num_done = 0
        self.recording = recording_of_updates(self._minibatch, new_graphs, is_required=is_required)

    def forget(self) -> None:
        """Record again: the optimizer has other memory, such as a checkpoint's."""
        self.recording.forget()

    def begin(self) -> None:
        """Prepare for an iteration."""
        self._rate.begin(self._agent.last_lr)

    def end(self, rate: float) -> None:
        """Give the optimizer back, with the rate as it was read from :attr:`rate`."""
        self._agent.last_lr = rate
        self._rate.end(rate)

    @property
    def rate(self) -> torch.Tensor:
        """The learning rate, float64 0-d."""
        return self._rate.value

    def __call__(self, batch: dict[str, Any]) -> tuple[Any, ...]:
        """Update the networks with a minibatch; return what ``train_actor_critic`` does."""
        agent = self._agent
        given = {name: values for name, values in batch.items() if values is not None}
        if not self._batch:
            self._batch = tree_map(torch.clone, given)
        torch._foreach_copy_(tree_leaves(self._batch), tree_leaves(given))
        agent.set_train()
        numbers, mean, deviation = self.recording.run()
        a_loss, c_loss, entropy, divergence, b_loss = numbers.unbind()
        self._num_done += 1
        if not self._adapts_at_once and self._num_done % len(agent.dataset) == 0:
            self._adapt_rate(self._divergences / len(agent.dataset))
            self._divergences.zero_()
        rate, factor = agent.last_lr, 1.0
        return a_loss, c_loss, entropy, divergence, rate, factor, mean, deviation, b_loss

    def _minibatch(self) -> tuple[torch.Tensor, ...]:
        """Return losses and divergence, and the distribution's means and deviations."""
        agent = self._agent
        agent.calc_gradients(self._batch)
        a_loss, c_loss, entropy, divergence, _, _, mean, deviation, b_loss = agent.train_result
        if self._adapts_at_once:
            self._adapt_rate(divergence)
        else:
            self._divergences += divergence
        numbers = torch.stack((a_loss, c_loss, entropy, divergence, b_loss))
        return numbers.detach(), mean, deviation

    def _adapt_rate(self, divergence: torch.Tensor) -> None:
        """Change the learning rate by a divergence from the policy that acted, of all ranks."""
        agent, schedule = self._agent, self._agent.scheduler
        if not isinstance(schedule, AdaptiveScheduler):
            return
        divergence = agent.context.sum(divergence.double()) / agent.context.world_size
        self._rate.adapt(
            divergence > 2.0 * schedule.kl_threshold,
            divergence < 0.5 * schedule.kl_threshold,
            lowest=schedule.min_lr,
            highest=schedule.max_lr,
        )
