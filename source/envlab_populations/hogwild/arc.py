"""Networks as SLM-Lab's ``TorchArcNet`` describes them: torch's layers by name, one after another.

A spec may be untrusted, so names are looked up in a fixed list alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envlab.config.translator import Translator
from envlab.errors import did_you_mean
from envlab_populations.hogwild.cfg import BATCH_NORM, BATCH_RENORM, LAYER_NORM

_ACTIVATIONS = {
    "ReLU": "relu",
    "LeakyReLU": "leaky_relu",
    "ELU": "elu",
    "SELU": "selu",
    "GELU": "gelu",
    "SiLU": "silu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
}
_NORMS = {"LazyBatchRenorm1d": BATCH_RENORM, "LazyBatchNorm1d": BATCH_NORM}
_LAYERS = ("LazyLinear", "LazyConv2d", "LayerNorm", *_NORMS, "Flatten", *_ACTIVATIONS)
_NORM_DEFAULTS = {
    "LazyBatchRenorm1d": {"momentum": 0.01, "eps": 1e-5, "warmup_steps": 10_000},
    "LazyBatchNorm1d": {"momentum": 0.1, "eps": 1e-5},
}
"""Defaults of SLM-Lab and torch."""
_CONVOLUTION = {"out_channels": None, "kernel_size": None, "stride": 1, "padding": 0, "dilation": 1}
"""Arguments of torch's convolution that are read, with its defaults."""


def read_arc(
    net: Translator, key: str = "arc"
) -> tuple[list[int | list[int] | str], dict[str, Any]]:
    """Return the layers of an ``arc`` in the terms of ``NetCfg.layers``, and settings of its norms.

    The graph must be a chain. ``Flatten`` changes nothing: images are flat after convolutions, and
    all else is flat before.

    Raises:
        ConfigurationError: Naming the part that is not supported here.
    """
    net.refuse("arc_file", "architectures are read from the spec itself: write it as arc")
    arc = net.mapping(key)
    modules, graph = arc.get("modules"), arc.get("graph")
    if not isinstance(modules, dict) or not isinstance(graph, dict):
        raise net.refusal(key, arc, "must have modules and a graph")
    body: list[int | list[int] | str] = []
    norms: dict[str, Any] = {}
    for name in _chain(net, graph):
        kinds = modules.get(name)
        if not isinstance(kinds, dict) or len(kinds) != 1:
            raise net.refusal(f"{key}.modules.{name}", kinds, "must be one module by its name")
        layers = kinds.get("Sequential", [kinds])
        if not isinstance(layers, list):
            path = f"{key}.modules.{name}.Sequential"
            raise net.refusal(path, layers, "must be a list of layers")
        for layer in layers:
            _add(body, norms, net, f"{key}.modules.{name}", layer)
    if not body:
        raise net.refusal(f"{key}.modules", modules, "must have a layer")
    return body, norms


def _chain(net: Translator, graph: Mapping[str, Any]) -> list[Any]:
    """Return the names of modules from the graph's input to its output."""
    links, at, order = graph.get("modules"), graph.get("input"), []
    if isinstance(links, dict):
        left = dict(links)
        while at != graph.get("output"):
            following = [name for name, sources in left.items() if sources in (at, [at])]
            if len(following) != 1:
                break
            at = following[0]
            del left[at]
            order.append(at)
        else:
            if order and not left:
                return order
    why = "only a chain is made here: each module has one source, and each leads to the output"
    raise net.refusal("arc.graph", graph, why)


def _add(
    body: list[int | list[int] | str], norms: dict[str, Any], net: Translator, path: str, layer: Any
) -> None:
    """Add a layer, given as its name, or as its name and arguments."""
    given = layer if isinstance(layer, dict) else {layer: None} if isinstance(layer, str) else {}
    if len(given) != 1:
        raise net.refusal(path, layer, "each layer must be a name, or a name and its arguments")
    name, values = next(iter(given.items()))
    arguments = values or {}
    if name not in _LAYERS:
        why = f"layers must be of {', '.join(_LAYERS)}.{did_you_mean(str(name), _LAYERS)}"
        raise net.refusal(path, layer, why)
    if not isinstance(arguments, dict):
        raise net.refusal(f"{path}.{name}", values, "must be a dictionary of its arguments")
    if name == "LazyConv2d":
        body.append(_convolution(net, f"{path}.{name}", arguments))
        return
    size = next((one for one in reversed(body) if isinstance(one, int)), None)
    if name == "LazyLinear":
        width = arguments.get("out_features")
        if type(width) is not int or width < 1 or len(arguments) > 1:
            raise net.refusal(f"{path}.{name}", arguments, "must be {out_features: SIZE}")
        body.append(width)
    elif name == "LayerNorm":
        if size is None or arguments not in ({"normalized_shape": n} for n in (size, [size])):
            why = f"must be {{normalized_shape: [{size}]}} after a layer"
            raise net.refusal(f"{path}.{name}", arguments, why)
        body.append(LAYER_NORM)
    elif name in _NORMS:
        body.append(_NORMS[name])
        settings = _norm_settings(net, f"{path}.{name}", name, arguments)
        if norms not in ({}, settings):
            raise net.refusal(f"{path}.{name}", arguments, "batch norms must be set alike")
        norms.update(settings)
    elif name in _ACTIVATIONS:
        if arguments:
            raise net.refusal(f"{path}.{name}", arguments, "activations have no arguments here")
        body.append(_ACTIVATIONS[name])


def _norm_settings(
    net: Translator, path: str, name: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Return a batch norm's settings in the terms of ``NetCfg``."""
    known = _NORM_DEFAULTS[name]
    values = {**known, **arguments}
    numbers = [one for one in values.values() if type(one) in (int, float) and one > 0]
    if set(values) != set(known) or len(numbers) != len(known):
        raise net.refusal(path, arguments, f"must be numbers above 0 of {', '.join(known)}")
    names = {"momentum": "norm_momentum", "eps": "norm_eps", "warmup_steps": "norm_warmup"}
    return {names[key]: value for key, value in values.items()}


def _convolution(net: Translator, path: str, arguments: dict[str, Any]) -> list[int]:
    """Return a convolution in the terms of ``NetCfg.layers``."""
    values = {**_CONVOLUTION, **arguments}
    if set(values) != set(_CONVOLUTION) or any(type(one) is not int for one in values.values()):
        raise net.refusal(path, arguments, f"must be whole numbers of {', '.join(_CONVOLUTION)}")
    return [values[key] for key in _CONVOLUTION]
