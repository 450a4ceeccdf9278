"""skrl's networks on JAX from a configuration written for PyTorch."""

from __future__ import annotations

import importlib
import logging
import math
import re
from collections.abc import Mapping
from types import MethodType
from typing import Any

import jax
import jax.numpy as jnp

from envlab.errors import ConfigurationError
from envlab.skrl.agents import Models
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.env import SkrlEnv
from envlab.skrl.library import LOG_STD, MODELS, SQUASHED
from envlab.skrl.networks import network_settings

logger = logging.getLogger(__name__)

_CHANNELS_FIRST = re.compile(r"permute\(\s*([^(]+?)\s*,\s*[(\[]0,\s*3,\s*1,\s*2[)\]]\s*\)")


def make_models(env: SkrlEnv, cfg: SkrlCfg, device: jax.Device) -> Models:
    """Return models without parameters yet.

    Raises:
        ConfigurationError: If skrl has a kind of model only on PyTorch.
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
            given["network"] = [channels_last(layers) for layers in given["network"]]
            models[name][role] = function(device=device, **spaces._asdict(), **given)
            if settings["class"] == SQUASHED:
                squash(models[name][role])
    return models


def squash(model: Any) -> None:
    """Squash one of skrl's Gaussian models, as :class:`..torch.models.SquashedMixin` does.

    Its ``act`` is replaced, and a new attribute, ``best``, squashes the network's output.
    """
    space = model.action_space
    low, high = (jnp.asarray(bound, jnp.float32).reshape(-1) for bound in (space.low, space.high))
    scale, middle = (high - low) / 2.0, (high + low) / 2.0

    def act(
        self: Any, inputs: dict[str, Any], *, role: str = "", params: Any = None
    ) -> tuple[jax.Array, dict[str, Any]]:
        self._g_i += 1
        key = jax.random.fold_in(self._g_key, self._g_i)
        params = self.state_dict.params if params is None else params
        mean, outputs = self.apply(params, {**inputs, "key": key}, role)
        squashed, log_prob = _sample_squashed(mean, outputs["log_std"], key)
        outputs |= {"log_prob": log_prob, "mean_actions": self.best(mean)}
        return middle + scale * squashed, outputs

    model.act = MethodType(act, model)
    model.best = lambda mean: middle + scale * jnp.tanh(mean)


@jax.jit
def _sample_squashed(
    mean: jax.Array, log_std: jax.Array, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return samples between -1 and 1, and their log-densities, ``(batch, 1)``."""
    log_std = jnp.clip(log_std, *LOG_STD)
    noise = jax.random.normal(key, mean.shape)
    raw = mean + noise * jnp.exp(log_std)
    density = -0.5 * jnp.square(noise) - log_std - 0.5 * math.log(2.0 * math.pi)
    density = density - 2.0 * (math.log(2.0) - raw - jax.nn.softplus(-2.0 * raw))
    return jnp.tanh(raw), density.sum(axis=-1, keepdims=True)


def channels_last(container: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part of a network in flax's form.

    Images keep their channels last, while PyTorch needs them permuted; and a single number for both
    sides of a kernel, which PyTorch accepts, would be a convolution along one axis.
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
    """Return a convolution's arguments, named or positional, with pairs for kernel and stride."""
    if isinstance(given, list):
        return [[v, v] if i in (1, 2) and isinstance(v, int) else v for i, v in enumerate(given)]
    sides = ("kernel_size", "stride", "strides")
    return {k: [v, v] if k in sides and isinstance(v, int) else v for k, v in given.items()}
