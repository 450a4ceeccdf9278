"""Playing and exporting policies that skrl trained.

They take their best action, without noise; with ``agent.trainer.stochastic_evaluation``, ``play``
samples. On both frameworks, policies are called with torch tensors.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces
from torch import fx, nn

from envlab.skrl.env import ObservationPacker, joined
from envlab.skrl.learner import SkrlLearner
from envlab.training.export import export_policy


class BestActions(nn.Module):
    """A trained policy, including normalisation, that takes its best action."""

    def __init__(self, model: Any, role: str, scalers: Sequence[Any]) -> None:
        """Wrap a model.

        Args:
            model: skrl's model.
            role: ``policy`` or ``q_network``.
            scalers: Preprocessors of observations and states.
        """
        super().__init__()
        self._model, self._role = model, role
        self._scale_observations, self._scale_states = scalers

    def forward(
        self, obs: torch.Tensor | dict[str, torch.Tensor], states: torch.Tensor | None = None
    ) -> torch.Tensor:
        flat = joined(obs, sorted(obs)) if isinstance(obs, dict) else obs.flatten(1)
        output = self._model.compute(self._inputs(flat, states), self._role)[0]
        if hasattr(self._model, "_shared_output"):
            self._model._shared_output = None  # kept for the value network, which is not called
        space = self._model.action_space
        if isinstance(space, spaces.Discrete):
            return output.argmax(dim=1, keepdim=True)
        if isinstance(space, spaces.MultiDiscrete):
            ends = list(itertools.accumulate(space.nvec.tolist(), initial=0))
            parts = [output[:, start:end] for start, end in itertools.pairwise(ends)]
            return torch.cat([part.argmax(dim=1, keepdim=True) for part in parts], dim=1)
        return self._clipped(output)

    def sample(self, obs: torch.Tensor, states: torch.Tensor | None = None) -> torch.Tensor:
        """Return actions drawn from the policy's distribution, as in training."""
        actions: torch.Tensor = self._model.act(self._inputs(obs, states), role=self._role)[0]
        return actions

    def _inputs(self, obs: torch.Tensor, states: torch.Tensor | None) -> dict[str, torch.Tensor]:
        inputs = {"observations": self._scale_observations(obs)}
        if states is not None:
            inputs["states"] = self._scale_states(states)
        return inputs

    def _clipped(self, actions: torch.Tensor) -> torch.Tensor:
        names = ("_g_clip_actions", "_g_clip_mean_actions", "_d_clip_actions", "_mg_clip_actions")
        if not any(getattr(self._model, name, False) is True for name in names):
            return actions
        space = self._model.action_space
        low = torch.as_tensor(space.low, device=actions.device)
        return actions.clamp(low, torch.as_tensor(space.high, device=actions.device))


class SkrlPlayer:
    """See :class:`envlab.learner.Player`; several agents act as one."""

    def __init__(self, learner: SkrlLearner) -> None:
        """Take over the agents of a learner that has loaded a checkpoint."""
        self._cfg, self._agent = learner.cfg, learner.agent
        self._agent.enable_models_training_mode(False)
        seen = learner.env.spaces
        models = self._agent.models
        roles = models[next(iter(seen))] if self._cfg.is_multi_agent else models
        self._role = "q_network" if "q_network" in roles else "policy"
        self._spaces = {name: own.observation_space for name, own in seen.items()}
        self._policies = {name: self._policy(name) for name in seen}
        if not self._cfg.is_multi_agent:
            groups = learner.env.env.single_observation_space
            self._pack = ObservationPacker(groups, self._cfg.obs_groups)

    def act(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        samples = self._cfg.trainer["stochastic_evaluation"]
        policies = [policy.sample if samples else policy for policy in self._policies.values()]
        if not self._cfg.is_multi_agent:
            return policies[0](*self._pack(obs))
        sizes = [math.prod(space.shape or ()) for space in self._spaces.values()]
        parts = obs["policy"].split(sizes, dim=1)
        return torch.cat([policy(part) for policy, part in zip(policies, parts, strict=True)], 1)

    def export(self, directory: Path) -> list[Path]:
        written = []
        for name, policy in self._policies.items():
            space = self._spaces[name]
            folder = directory / name if self._cfg.is_multi_agent else directory
            try:
                exported: nn.Module = self._traceable(name)
                if not isinstance(space, spaces.Dict):
                    exported = _traced(exported)
            except Exception as error:  # a user's own network can do anything
                reason = str(error).splitlines()[0] if str(error) else ""
                print(f"Not exported: {self._obstacle} ({type(error).__name__}: {reason}).")
                continue
            seen = space if isinstance(space, spaces.Dict) else space.shape or ()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # TorchScript on annotations in skrl's constructors
                written += export_policy(exported, policy, seen, folder)
        return written

    _obstacle = "the network cannot be traced"

    def _policy(self, name: str) -> BestActions:
        """Return an agent's policy."""
        scalers = [self._scaler(name, kind) for kind in ("observation", "state")]
        return BestActions(self._model(name), self._role, scalers)

    def _traceable(self, name: str) -> BestActions:
        """Return an agent's policy on PyTorch."""
        return self._policies[name]

    def _model(self, name: str) -> Any:
        models = self._agent.models
        return (models[name] if self._cfg.is_multi_agent else models)[self._role]

    def _scaler(self, name: str, kind: str) -> Any:
        found = getattr(self._agent, f"_{kind}_preprocessor")
        return found[name] if self._cfg.is_multi_agent else found


class _OnObservations(nn.Module):
    """A policy on observations alone, without the branch that a traced module cannot have."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self._policy = policy

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        actions: torch.Tensor = self._policy(obs)
        return actions


def _traced(policy: nn.Module) -> fx.GraphModule:
    """Return a policy as a graph: tracing removes the dictionaries of skrl's own models."""
    traced = fx.symbolic_trace(_OnObservations(policy.cpu()))
    for node in traced.graph.nodes:
        node.type = None  # TorchScript cannot resolve the names that fx writes for them
    traced.recompile()
    return traced
