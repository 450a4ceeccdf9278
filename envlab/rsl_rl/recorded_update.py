"""PPO's update as graphs: each decision is a tensor, and the host reads once, at the end.

rsl_rl's own update waits for the device five to seven times a minibatch. This class does the same
arithmetic (rsl_rl 5.5.1, ``PPO.update``) without the waits, so one minibatch can be recorded and
repeated for all others (:mod:`envlab.sim.recording`). Unlike the library, it draws no unused
actions, so later draws differ.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from rsl_rl.models import MLPModel
from rsl_rl.utils import reduce_gradients_in_buckets
from tensordict import TensorDict
from torch import nn

from envlab.distributed.ddp import OWN_STREAM
from envlab.distributed.readings import Readings
from envlab.rsl_rl._joined_update import HIGHEST_RATE, LOWEST_RATE
from envlab.rsl_rl.ppo import DistributedPPO
from envlab.sim.recording import NewGraphs, cuda_graphs, recording_of_updates
from envlab.training.adaptive_rate import AdaptiveRate

_STORED = ("actions", "values", "returns", "actions_log_prob", "advantages")
_SETTINGS = (
    *("clip_param", "value_loss_coef", "entropy_coef", "max_grad_norm", "desired_kl", "schedule"),
    *("use_clipped_value_loss", "use_mixed_precision"),
)
"""Numbers of the algorithm that a graph contains; populations change some."""


def obstacle(alg: DistributedPPO) -> str | None:
    """Return why an algorithm's update cannot be recorded, as a part of a sentence; None: it can.

    Args:
        alg: The algorithm, complete with its ranks.
    """
    if alg.actor.is_recurrent or alg.critic.is_recurrent:
        return "its networks are recurrent"
    if alg.rnd or alg.symmetry:
        return f"it has {'rnd_cfg' if alg.rnd else 'symmetry_cfg'}"
    if alg.normalises_batches:
        return "normalize_advantage_per_mini_batch asks all ranks at each minibatch"
    if "capturable" not in alg.optimizer.defaults:
        return f"the optimizer {type(alg.optimizer).__name__} reads its rate on the host"
    if alg.uses_ddp:
        return OWN_STREAM
    for name, network in (("actor", alg.actor), ("critic", alg.critic)):
        if type(network).forward is not MLPModel.forward:  # compiled, or a class of one's own
            return f"agent.{name} is a {type(network).__name__}"
    return None


class RecordedUpdate:
    """Updates a PPO's networks from its storage."""

    def __init__(
        self, alg: DistributedPPO, new_graphs: NewGraphs = cuda_graphs, *, is_required: bool = False
    ) -> None:
        """Record, beginning with the first minibatches.

        Args:
            alg: The algorithm, which has no :func:`obstacle`.
            new_graphs: See :data:`NewGraphs`.
            is_required: Whether an update that cannot be recorded is an error; else it is made
                without graphs.
        """
        self._alg = alg
        self.readings = Readings()
        """What else is read where the losses are."""
        self.mean_std: float | None = None
        self._settings: tuple[Any, ...] = ()
        self._stored: dict[str, torch.Tensor] = {}
        self._rate = AdaptiveRate(alg.optimizer, alg.device)
        self._sums = torch.zeros(3, dtype=torch.float64, device=alg.device)
        self._rows = torch.zeros(0, dtype=torch.int64, device=alg.device)
        self.recording = recording_of_updates(self._minibatch, new_graphs, is_required=is_required)

    def forget(self) -> None:
        """Record again: the optimizer has other memory, such as a checkpoint's."""
        self.recording.forget()

    def __call__(self) -> dict[str, float]:
        """Return the mean losses, as :meth:`rsl_rl.algorithms.PPO.update` does."""
        alg, storage = self._alg, self._alg.storage
        self._take_settings()
        self._take_rollout()
        self._rate.begin(alg.learning_rate)
        self._sums.zero_()
        total = storage.num_envs * storage.num_transitions_per_env
        size = total // alg.num_mini_batches
        if len(self._rows) != size:
            self._rows = torch.zeros(size, dtype=torch.int64, device=alg.device)
            self.forget()
        order = torch.randperm(alg.num_mini_batches * size, device=alg.device)
        for _ in range(alg.num_learning_epochs):
            for rows in order.split(size):
                self._rows.copy_(rows)
                self.recording.run()
        num_updates = alg.num_learning_epochs * alg.num_mini_batches
        spread = alg.actor.output_std.detach().mean()
        read = torch.cat(
            (self._sums / num_updates, torch.stack((self._rate.value, spread.double())))
        )
        *losses, alg.learning_rate, self.mean_std = self.readings.read(read)
        self._rate.end(alg.learning_rate)
        observations = storage.observations.flatten(0, 1)
        for network in (alg.actor, alg.critic):
            with _kept_buffers(network):
                network.update_normalization(observations)
        storage.clear()
        return dict(zip(("value", "surrogate", "entropy"), losses, strict=True))

    def _minibatch(self) -> None:
        alg, rows = self._alg, self._rows
        chosen = {name: values.index_select(0, rows) for name, values in self._stored.items()}
        observations = TensorDict(
            {name[4:]: values for name, values in chosen.items() if name.startswith("obs.")},
            batch_size=[len(rows)],
        )
        with torch.amp.autocast(
            device_type=rows.device.type, enabled=alg.use_mixed_precision, dtype=torch.bfloat16
        ):
            distribution = alg.actor.distribution
            distribution.update(alg.actor.mlp(alg.actor.get_latent(observations)))
            log_prob = distribution.log_prob(chosen["actions"])
            values = alg.critic(observations)
            if alg.desired_kl is not None and alg.schedule == "adaptive":
                self._adapt_rate(chosen, distribution)
            entropy = distribution.entropy.mean()
            surrogate = self._surrogate(log_prob, chosen)
            value_loss = self._value_loss(values, chosen)
            loss = surrogate + alg.value_loss_coef * value_loss - alg.entropy_coef * entropy
        alg.optimizer.zero_grad()
        loss.backward()
        if alg.is_multi_gpu:
            parameters = [p for network in alg.networks.values() for p in network.parameters()]
            reduce_gradients_in_buckets(
                dict.fromkeys(parameters), alg.gpu_world_size, alg.grad_reduce_bucket_mb
            )
        for network in (alg.actor, alg.critic):
            nn.utils.clip_grad_norm_(network.parameters(), alg.max_grad_norm)
        alg.optimizer.step()
        self._sums += torch.stack((value_loss, surrogate, entropy)).detach()

    def _surrogate(self, log_prob: torch.Tensor, chosen: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the clipped surrogate loss (Schulman et al. 2017)."""
        clip, advantages = self._alg.clip_param, chosen["advantages"].squeeze(1)
        ratio = torch.exp(log_prob - chosen["actions_log_prob"].squeeze(1))
        clipped = -advantages * torch.clamp(ratio, 1.0 - clip, 1.0 + clip)
        return torch.max(-advantages * ratio, clipped).mean()

    def _value_loss(self, values: torch.Tensor, chosen: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the squared error of values, of a clipped change where that is larger."""
        alg, returns, before = self._alg, chosen["returns"], chosen["values"]
        errors = (values - returns).pow(2)
        if not alg.use_clipped_value_loss:
            return errors.mean()
        near = before + (values - before).clamp(-alg.clip_param, alg.clip_param)
        return torch.max(errors, (near - returns).pow(2)).mean()

    @torch.no_grad()
    def _adapt_rate(self, chosen: dict[str, torch.Tensor], distribution: Any) -> None:
        """Change the learning rate by the divergence from the policy that acted."""
        alg = self._alg
        old = tuple(chosen[f"param.{i}"] for i in range(len(distribution.params)))
        divergence = distribution.kl_divergence(old, distribution.params).mean()
        if alg.is_multi_gpu:
            torch.distributed.all_reduce(divergence, op=torch.distributed.ReduceOp.SUM)
            divergence /= alg.gpu_world_size
        is_near = (divergence < alg.desired_kl / 2.0) & (divergence > 0.0)
        is_far = divergence > alg.desired_kl * 2.0
        self._rate.adapt(is_far, is_near, lowest=LOWEST_RATE, highest=HIGHEST_RATE)

    def _take_settings(self) -> None:
        """Record again if numbers that graphs contain have changed."""
        settings = tuple(getattr(self._alg, name) for name in _SETTINGS)
        if settings != self._settings:
            self._settings = settings
            self.forget()

    def _take_rollout(self) -> None:
        """Have the rollout where graphs read it; rsl_rl keeps some of it in new tensors."""
        storage = self._alg.storage
        found = {name: getattr(storage, name) for name in _STORED}
        found |= {f"obs.{name}": values for name, values in storage.observations.items()}
        found |= {f"param.{i}": values for i, values in enumerate(storage.distribution_params)}
        for name, values in found.items():
            flat = values.flatten(0, 1)
            if name not in self._stored:
                self._stored[name] = flat.clone() if name == "advantages" else flat
            elif self._stored[name].data_ptr() != flat.data_ptr():
                self._stored[name].copy_(flat)


@contextlib.contextmanager
def _kept_buffers(network: nn.Module) -> Iterator[None]:
    """Keep buffers where graphs read them; rsl_rl's normaliser replaces some by new tensors."""
    before = dict(network.named_buffers())
    yield
    for name, buffer in network.named_buffers():
        if buffer is not before[name]:
            owner, _, last = name.rpartition(".")
            setattr(network.get_submodule(owner), last, before[name].copy_(buffer))
