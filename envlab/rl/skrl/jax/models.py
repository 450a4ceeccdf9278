"""skrl's networks on JAX from a configuration that was written for PyTorch."""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Mapping
from typing import Any

import jax

from envlab.errors import ConfigurationError
from envlab.rl.skrl.agents import Models
from envlab.rl.skrl.cfg import SkrlCfg
from envlab.rl.skrl.env import SkrlEnv
from envlab.rl.skrl.library import MODELS
from envlab.rl.skrl.networks import network_settings

logger = logging.getLogger(__name__)

_CHANNELS_FIRST = re.compile(r"permute\(\s*([^(]+?)\s*,\s*[(\[]0,\s*3,\s*1,\s*2[)\]]\s*\)")


def make_models(env: SkrlEnv, cfg: SkrlCfg, device: jax.Device) -> Models:
    """Return models without parameters yet.

    Raises:
        ConfigurationError: If skrl has a kind of model on PyTorch only.
    """
    if not cfg.models.get("separate", True):
        logger.info(
            "On JAX, skrl's networks do not share layers: agent.models.separate is taken for true."
        )
    instantiators = importlib.import_module("skrl.utils.model_instantiators.jax")
    models: Models = {}
    for name, spaces in env.spaces.items():
        models[name] = {}
        for role, settings in network_settings(cfg).items():
            function = getattr(instantiators, MODELS[settings["class"]], None)
            if function is None:
                raise ConfigurationError(
                    f"agent.models.{role}.class is {settings['class']!r}, which skrl has on "
                    "PyTorch only. Use GaussianMixin, or leave --ml_framework jax out."
                )
            given = {key: value for key, value in settings.items() if key != "class"}
            given["network"] = [_channels_last(layers) for layers in given["network"]]
            models[name][role] = function(device=device, **spaces._asdict(), **given)
    return models


def _channels_last(container: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part of a network as flax wants it.

    Images keep their channels last, where PyTorch wants them permuted; and one number for both
    sides of a kernel, as PyTorch takes it, would be a convolution along one axis.
    """
    layers = [
        {
            name: _paired(given) if name.lower() == "conv2d" else given
            for name, given in part.items()
        }
        if isinstance(part, Mapping)
        else part
        for part in container["layers"]
    ]
    source = _CHANNELS_FIRST.sub(r"(\1)", str(container["input"]))
    return {**container, "input": source, "layers": layers}


def _paired(given: Any) -> Any:
    """Return a convolution's arguments, named or in order, with pairs for kernel and stride."""
    if isinstance(given, list):
        return [[v, v] if i in (1, 2) and isinstance(v, int) else v for i, v in enumerate(given)]
    sides = ("kernel_size", "stride", "strides")
    return {k: [v, v] if k in sides and isinstance(v, int) else v for k, v in given.items()}
