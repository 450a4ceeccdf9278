"""skrl's networks on PyTorch from a configuration, with the randomness that they lack.

And what networks that are written as classes share.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
from gymnasium import spaces

from envlab.errors import ConfigurationError
from envlab.skrl.agents import Models
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.env import SkrlEnv, Spaces
from envlab.skrl.library import LOG_STD, MODELS, SQUASHED, load_skrl
from envlab.skrl.networks import network_settings
from envlab.squashed import sample_squashed

load_skrl()

from skrl.models.torch import Model  # noqa: E402


def make_models(env: SkrlEnv, cfg: SkrlCfg) -> Models:
    """Return an agent's networks, or those of several, with parameters.

    Raises:
        ConfigurationError: If networks are to share layers and there are not two of them.
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
    """Return one network that plays two roles."""
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
    """Return a policy's mean actions plus uniform noise in [-alpha, alpha], as RPO wants it.

    Rahman and Xue, "Robust Policy Optimization in Deep Reinforcement Learning" (2022), algorithm 1.
    skrl hands ``alpha`` to the network, but the networks that it makes from a configuration do not
    use it, so that RPO would be PPO.
    """
    mean, outputs = compute(inputs, role)
    if role == "policy" and "alpha" in inputs:
        mean = mean + inputs["alpha"] * (2.0 * torch.rand_like(mean) - 1.0)
    return mean, outputs


def random_actions(
    space: spaces.Space[Any], inputs: dict[str, torch.Tensor], *, role: str = ""
) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return random actions in place of a model's own, drawn from torch's generator.

    skrl draws from a copy of the space's generator, so that it repeats the same actions in every
    step (measured with Gymnasium 1.4), and this generator has no seed that a run could know.
    """
    count, device = len(inputs["observations"]), inputs["observations"].device
    if isinstance(space, spaces.Box):
        low, high = (torch.as_tensor(bound, device=device) for bound in (space.low, space.high))
        return low + (high - low) * torch.rand((count, *space.shape), device=device), {}
    sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else list(space.nvec)  # type: ignore[attr-defined]
    columns = [torch.randint(int(size), (count, 1), device=device) for size in sizes]
    return torch.cat(columns, dim=1), {}


class EnvlabModel(Model):
    """A model whose targets follow in one call; its random actions are of torch's generator."""

    def __init__(self, seen: Spaces, device: torch.device) -> None:
        super().__init__(**seen._asdict(), device=device)

    def update_parameters(self, model: Any, *, polyak: float = 1.0) -> None:
        """Move towards another model's parameters by skrl's rule, all of them at once."""
        with torch.no_grad():
            torch._foreach_lerp_(list(self.parameters()), list(model.parameters()), polyak)

    def random_act(self, inputs: Any, *, role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return uniform actions, see :func:`random_actions`."""
        return random_actions(self.action_space, inputs, role=role)

    def action_range(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return half the width and the middle of the actions' bounds, ``(num_actions,)`` each."""
        return action_range(self.action_space)


def action_range(space: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return half the width and the middle of a box's bounds, ``(num_actions,)`` each."""
    low, high = (torch.as_tensor(bound).flatten().float() for bound in (space.low, space.high))
    return (high - low) / 2.0, (high + low) / 2.0


class SquashedMixin:
    """What skrl's models lack for SAC: a Gaussian squashed by tanh to the actions' bounds.

    Log-probabilities are densities of the actions as they lie in -1 to 1, whatever their bounds, as
    in Stable-Baselines3, Spinning Up and rl_games: so that the target entropy of Haarnoja et al.
    (2018), minus the number of actions, asks for as much exploration of a task whose actions go to
    10 as of one whose go to 0.4. (CleanRL's are of the actions as the environment takes them, which
    differ by the sum of the logarithms of the scales.)
    """

    def gaussian(self, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and log standard deviation before tanh, ``(batch, num_actions)`` each."""
        raise NotImplementedError

    def to_bounds(self, squashed: torch.Tensor) -> torch.Tensor:
        """Return actions of -1 to 1 as the environment takes them, ``(batch, num_actions)``."""
        raise NotImplementedError

    def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict]:
        """Return the best actions, and mean and log standard deviation before tanh."""
        mean, log_std = self.gaussian(inputs)
        outputs = {"mean": mean, "log_std": log_std.clamp(*LOG_STD)}
        return self.to_bounds(mean.tanh()), outputs

    def act(self, inputs: dict[str, Any], *, role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
        """Return sampled actions, and their log-probabilities, ``(batch, 1)``."""
        best, outputs = self.compute(inputs, role)
        squashed, density = sample_squashed(outputs["mean"], outputs["log_std"])
        outputs["log_prob"] = density.sum(dim=-1, keepdim=True)
        outputs["mean_actions"] = best
        return self.to_bounds(squashed), outputs


def squash(model: Model) -> None:
    """Squash one of skrl's Gaussian models in place; its parameters stay as they are."""
    kind = type(model)

    class Squashed(SquashedMixin, kind):  # type: ignore[valid-type, misc]
        def gaussian(self, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
            mean, outputs = kind.compute(self, inputs, "policy")
            return mean, outputs["log_std"]

        def to_bounds(self, squashed: torch.Tensor) -> torch.Tensor:
            return self._middle + self._scale * squashed

    model.__class__ = Squashed
    for name, values in zip(("_scale", "_middle"), action_range(model.action_space), strict=True):
        model.register_buffer(name, values.to(model.device), persistent=False)
