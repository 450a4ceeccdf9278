"""skrl's networks on PyTorch from a configuration, with the randomness that they lack."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch

from envlab.errors import ConfigurationError
from envlab.skrl.agents import Models
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.env import SkrlEnv, Spaces
from envlab.skrl.library import MODELS, SQUASHED
from envlab.skrl.networks import network_settings
from envlab.skrl.torch.heads import SquashedMixin, random_actions


def make_models(env: SkrlEnv, cfg: SkrlCfg) -> Models:
    """Return an agent's networks, or those of several, with parameters.

    Raises:
        ConfigurationError: If networks should share layers and there are not two of them.
    """
    make = _shared if not cfg.models.get("separate", True) else _separate
    models = {name: make(env, spaces, cfg) for name, spaces in env.spaces.items()}
    for by_role in models.values():
        for role, model in by_role.items():
            model.init_state_dict(role=role)
            model.random_act = functools.partial(random_actions, model.action_space)
    if cfg.algorithm == "rpo":
        policy = models["agent"]["policy"]
        policy.compute = functools.partial(_perturbed, policy.compute)
    return models


def _separate(env: SkrlEnv, seen: Spaces, cfg: SkrlCfg) -> dict[str, Any]:
    """Return a network for each role."""
    models = {}
    for role, settings in network_settings(cfg).items():
        own = seen
        if (cfg.algorithm, role) == ("amp", "discriminator"):
            own = seen._replace(observation_space=env.env.amp_observation_space)
        kind = settings.pop("class")
        function = _instantiator(MODELS[kind])
        models[role] = function(device=env.env.device, **own._asdict(), **settings)
        if kind == SQUASHED:
            squash(models[role])
    return models


def _shared(env: SkrlEnv, seen: Spaces, cfg: SkrlCfg) -> dict[str, Any]:
    """Return one network for two roles."""
    by_role = network_settings(cfg)
    if len(by_role) != 2:
        raise ConfigurationError(
            f"agent.models.separate is false, but agent.models has {', '.join(by_role)}. Two "
            "networks can share their layers; set separate to true for any other number."
        )
    model = _instantiator("shared_model")(
        device=env.env.device,
        structure=[settings.pop("class") for settings in by_role.values()],
        roles=list(by_role),
        parameters=list(by_role.values()),
        **seen._asdict(),
    )
    return dict.fromkeys(by_role, model)


def _instantiator(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(
        importlib.import_module("skrl.utils.model_instantiators.torch"), name
    )
    return function


def _perturbed(
    compute: Callable[..., tuple[torch.Tensor, dict[str, Any]]], inputs: dict[str, Any], role: str
) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return a policy's mean actions plus uniform noise in [-alpha, alpha], for RPO.

    Rahman and Xue, "Robust Policy Optimization in Deep Reinforcement Learning" (2022), algorithm 1.
    skrl passes ``alpha`` to the network, but the networks that it makes from a configuration do not
    use it, so that RPO would be PPO.
    """
    mean, outputs = compute(inputs, role)
    if role == "policy" and "alpha" in inputs:
        mean = mean + inputs["alpha"] * (2.0 * torch.rand_like(mean) - 1.0)
    return mean, outputs


def squash(model: Any) -> None:
    """Squash one of skrl's Gaussian models in place; its parameters stay as they are."""
    kind = type(model)

    class Squashed(SquashedMixin, kind):  # type: ignore[valid-type, misc]
        def gaussian(self, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
            mean, outputs = kind.compute(self, inputs, "policy")
            return mean, outputs["log_std"]

    model.__class__ = Squashed
    model.note_bounds()
