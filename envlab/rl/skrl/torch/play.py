"""Playing policies that skrl trained on PyTorch: returns over whole episodes, exported policies."""

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

from envlab.distributed.context import DistributedContext
from envlab.rl.command.session import Session
from envlab.rl.loop.export import export_policy
from envlab.rl.skrl.cfg import SkrlCfg
from envlab.rl.skrl.learner import check_algorithm
from envlab.rl.skrl.torch.learner import FRAMEWORK, make_learner


class BestActions(nn.Module):
    """A trained policy, normalisation included, that takes its best action: no noise, no sample."""

    def __init__(self, model: Any, role: str, kind: str, scalers: Sequence[Any]) -> None:
        """Wrap a model.

        Args:
            model: skrl's model.
            role: ``policy`` or ``q_network``.
            kind: Its ``class`` in the configuration.
            scalers: What observations, and states, go through.
        """
        super().__init__()
        self._model, self._role, self._kind = model, role, kind
        self._scale_observations, self._scale_states = scalers

    def forward(self, obs: torch.Tensor, states: torch.Tensor | None = None) -> torch.Tensor:
        inputs = {"observations": self._scale_observations(obs.flatten(1))}
        if states is not None:
            inputs["states"] = self._scale_states(states.flatten(1))
        output = self._model.compute(inputs, self._role)[0]
        if hasattr(self._model, "_shared_output"):
            self._model._shared_output = None  # kept for the value network, which is not asked
        if self._role == "q_network" or self._kind == "CategoricalMixin":
            return output.argmax(dim=1, keepdim=True)
        if self._kind == "MultiCategoricalMixin":
            ends = list(itertools.accumulate(self._model.action_space.nvec.tolist(), initial=0))
            parts = [output[:, start:end] for start, end in itertools.pairwise(ends)]
            return torch.cat([part.argmax(dim=1, keepdim=True) for part in parts], dim=1)
        return self._clipped(output)

    def _clipped(self, actions: torch.Tensor) -> torch.Tensor:
        names = ("_g_clip_actions", "_g_clip_mean_actions", "_d_clip_actions", "_mg_clip_actions")
        if not any(getattr(self._model, name, False) is True for name in names):
            return actions
        space = self._model.action_space
        low = torch.as_tensor(space.low, device=actions.device)
        return actions.clamp(low, torch.as_tensor(space.high, device=actions.device))


class _OnObservations(nn.Module):
    """A policy on observations alone, without the choice that a traced module cannot have."""

    def __init__(self, policy: BestActions) -> None:
        super().__init__()
        self._policy = policy

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        actions: torch.Tensor = self._policy(obs)
        return actions


class SkrlPlayer:
    """See :class:`envlab.rl.command.play.Player`."""

    def __init__(
        self, session: Session, env: Any, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        cfg = check_algorithm(session, FRAMEWORK)
        self._learner = make_learner(env, cfg, context)
        self._learner.load_models(values)
        self._learner.agent.enable_models_training_mode(False)
        self._env = self._learner.env
        self._policies = _policies(self._learner.agent, cfg)
        self._shapes = [self._observation_space(name).shape or () for name in self._policies]

    def act(self, obs: dict[str, torch.Tensor]) -> torch.Tensor:
        if "agent" in self._policies:
            return self._policies["agent"](obs["policy"], obs.get("critic"))
        sizes = [math.prod(shape) for shape in self._shapes]
        parts = obs["policy"].split(sizes, dim=1)
        policies = self._policies.values()
        return torch.cat([policy(part) for policy, part in zip(policies, parts, strict=True)], 1)

    def export(self, directory: Path) -> list[Path]:
        written = []
        for (name, policy), shape in zip(self._policies.items(), self._shapes, strict=True):
            folder = directory if name == "agent" else directory / name
            try:
                traced = traced_policy(policy)
            except Exception as error:  # a network of one's own can do anything
                print(
                    f"Not exported: the network cannot be traced ({type(error).__name__}: {error})."
                )
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # TorchScript on annotations in skrl's constructors
                written += export_policy(traced, policy, shape, folder)
        return written

    def _observation_space(self, name: str) -> spaces.Space[Any]:
        if name == "agent":
            return self._env.observation_space  # type: ignore[attr-defined]
        return self._env.observation_spaces[name]  # type: ignore[attr-defined]


def _policies(agent: Any, cfg: SkrlCfg) -> dict[str, BestActions]:
    """Return the policies by agent; the only one is called ``agent``."""
    role = "q_network" if "q_network" in cfg.models else "policy"
    kind = cfg.models[role]["class"]
    if not cfg.is_multi_agent:
        scalers = (agent._observation_preprocessor, agent._state_preprocessor)
        return {"agent": BestActions(agent.models[role], role, kind, scalers)}
    return {
        name: BestActions(
            agent.models[name][role],
            role,
            kind,
            (agent._observation_preprocessor[name], agent._state_preprocessor[name]),
        )
        for name in agent.possible_agents
    }


def traced_policy(policy: BestActions) -> fx.GraphModule:
    """Return a policy as a graph, which skrl's own models, with dictionaries and all, become so."""
    traced = fx.symbolic_trace(_OnObservations(policy.cpu()))
    for node in traced.graph.nodes:
        node.type = None  # TorchScript cannot resolve the names that fx writes for them
    traced.recompile()
    return traced


make_player = SkrlPlayer
