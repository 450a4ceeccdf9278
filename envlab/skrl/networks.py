"""The small language in which skrl's networks are configured, checked word by word.

skrl 2.1.1 writes a network's settings into the source of a class and executes it
(``skrl.utils.model_instantiators``), so that ``input: __import__("os").system(...)`` would be
called. :func:`network_settings` is the only way from a configuration to that code. Its result holds
numbers, names from fixed lists, identifiers, and expressions of the language that skrl documents:
tokens such as ``OBSERVATIONS``, parts of the network by name, indexing, arithmetic and a few
functions.
"""

from __future__ import annotations

import ast
import copy
import keyword
from collections.abc import Collection, Mapping
from typing import Any

from envlab.errors import ConfigurationError, did_you_mean
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.library import MODELS, model_defaults

_ACTIVATIONS = "elu leaky_relu relu selu sigmoid softmax softplus softsign tanh".split()
_INPUTS = ("OBSERVATIONS", "STATES", "ACTIONS")
_SPACES = ("OBSERVATION_SPACE", "STATE_SPACE", "ACTION_SPACE")
_INPUT_FUNCTIONS = ("concatenate", "permute", "one_hot_encoding")
_OUTPUTS = ("ACTIONS", "ONE")
_UNITS = (*_INPUTS, "ONE", "NUM_OBSERVATIONS", "NUM_STATES", "NUM_ACTIONS")
"""Names for a number of units in a layer."""
_LAYERS: Mapping[str, tuple[str, ...]] = {
    "linear": ("features", "out_features", "in_features", "use_bias", "bias"),
    "conv2d": (
        *("features", "out_channels", "in_channels", "kernel_size", "strides", "stride"),
        *("padding", "use_bias", "bias"),
    ),
    "flatten": ("start_dim", "end_dim"),
}
"""Kinds of layers and their arguments."""
_PADDINGS = ("same", "valid")
_REDUCTIONS = ("mean", "sum", "prod", "none")
_PART = ("name", "input", "layers", "activations")

_EXPRESSION = (
    *(ast.Expression, ast.Load, ast.List, ast.Tuple, ast.Subscript, ast.Slice),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.UnaryOp, ast.USub, ast.UAdd),
)
"""Nodes that are allowed anywhere; names, calls and constants are checked."""


def network_settings(cfg: SkrlCfg) -> dict[str, dict[str, Any]]:
    """Return copies of the networks' settings by role, for skrl's functions that make them.

    Raises:
        ConfigurationError: Naming the first setting that is not in skrl's language.
    """
    checked = {}
    for role, settings in cfg.models.items():
        if role != "separate":
            path = f"agent.models.{role}"
            _check_name(role, path, "a network's role")
            checked[role] = copy.deepcopy(_checked_model(settings, path))
    return checked


def _checked_model(settings: Any, path: str) -> dict[str, Any]:
    """Return a network's settings; expressions are rewritten from their parsed form."""
    kind = settings.get("class") if isinstance(settings, Mapping) else settings
    model_defaults(str(kind), f"{path}.class")  # refuses an unknown kind
    # Including those of other kinds, which skrl itself refuses.
    known = {name for other in MODELS for name in model_defaults(other, path)}
    checked: dict[str, Any] = {"class": kind}
    for name, value in settings.items():
        at = f"{path}.{name}"
        if name not in ("class", *known):
            raise ConfigurationError(
                f"{at} is {value!r}, but skrl's networks have no such setting."
                f"{did_you_mean(str(name), known)} Leave it out."
            )
        if name == "reduction":
            _check_choice(value, _REDUCTIONS, at)
        elif name not in ("class", "network", "output"):
            _check_number(value, at)
        checked[name] = value
    parts = settings.get("network")
    if not isinstance(parts, list) or not parts:
        raise _refused(f"{path}.network", parts, "must be a list of at least one part")
    names: list[str] = []
    checked["network"] = [
        _checked_part(part, f"{path}.network.{number}", names) for number, part in enumerate(parts)
    ]
    checked["output"] = _expression(
        settings.get("output"),
        f"{path}.output",
        (*_OUTPUTS, *names),
        (*_ACTIVATIONS, "concatenate"),
    )
    return checked


def _checked_part(part: Any, path: str, names: list[str]) -> dict[str, Any]:
    """Return a part of a network, and add its name to those available to later parts."""
    if not isinstance(part, Mapping):
        raise _refused(path, part, f"must be a part with {', '.join(_PART)}")
    for key, value in part.items():
        if key not in _PART:
            raise _refused(f"{path}.{key}", value, f"a part has only {', '.join(_PART)}")
    name, layers = part.get("name"), part.get("layers")
    _check_name(name, f"{path}.name", "a part's name")
    known = (*_INPUTS, *_SPACES, *names)
    text = _expression(part.get("input"), f"{path}.input", known, _INPUT_FUNCTIONS)
    if not isinstance(layers, list):
        raise _refused(f"{path}.layers", layers, "must be a list")
    for number, layer in enumerate(layers):
        _check_layer(layer, f"{path}.layers.{number}")
    activations = part.get("activations", [])
    for one in activations if isinstance(activations, list) else [activations]:
        if one not in (None, "") and str(one).lower() not in _ACTIVATIONS:
            raise _refused(
                f"{path}.activations",
                one,
                f"must be one of {', '.join(_ACTIVATIONS)}.{did_you_mean(str(one), _ACTIVATIONS)}",
            )
    names.append(str(name))
    return {**part, "input": text}


def _check_layer(layer: Any, path: str) -> None:
    if layer == "flatten" or _is_number(layer):
        return
    if not isinstance(layer, Mapping) or len(layer) != 1:
        raise _refused(path, layer, "must be a number of units, flatten, or {linear: ...}")
    (kind, given), *_ = layer.items()
    if kind not in _LAYERS:
        raise _refused(path, kind, f"must be one of {', '.join(_LAYERS)}")
    if isinstance(given, Mapping):
        for name, value in given.items():
            at = f"{path}.{kind}.{name}"
            if name not in _LAYERS[kind]:
                raise _refused(at, value, f"{kind} takes only {', '.join(_LAYERS[kind])}")
            is_units = kind == "linear" and name.endswith("features") and value in _UNITS
            is_padding = name == "padding" and str(value).lower() in _PADDINGS
            if not is_units and not is_padding:
                _check_number(value, at)
    elif kind == "linear" and _is_number(given):
        return
    else:
        for number, value in enumerate(given if isinstance(given, list) else [given]):
            _check_number(value, f"{path}.{kind}.{number}")


def _expression(text: Any, path: str, names: Collection[str], functions: Collection[str]) -> str:
    """Return an expression of names, numbers, indices, arithmetic and calls of functions."""
    expected = (
        f"may only hold {', '.join(names)}, the functions {', '.join(functions)}, indices, numbers "
        "and + - * /"
    )
    try:
        tree = ast.parse(text, mode="eval")
        plain = ast.unparse(tree)
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        raise _refused(path, text, expected) from None
    called, indices = _functions_and_indices(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            is_fine = node.id in (functions if node in called else names)
        elif isinstance(node, ast.Call):
            is_fine = isinstance(node.func, ast.Name) and not node.keywords
        elif isinstance(node, ast.Constant):  # text only selects a part of a composite space
            is_key = isinstance(node.value, str) and node in indices
            is_fine = is_key or node.value is Ellipsis or _is_number(node.value)
        else:
            is_fine = isinstance(node, _EXPRESSION)
        if not is_fine:
            raise _refused(path, text, f"{expected}, and not {ast.unparse(node)!r}")
    return plain


def _functions_and_indices(tree: ast.AST) -> tuple[set[ast.AST], set[ast.AST]]:
    """Return the called names, and the complete contents of brackets."""
    called: set[ast.AST] = set()
    indices: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called.add(node.func)
        elif isinstance(node, ast.Subscript):
            indices.add(node.slice)
    return called, indices


def _check_name(name: Any, path: str, what: str) -> None:
    is_plain = isinstance(name, str) and name.isascii() and name.isidentifier()
    if not is_plain or keyword.iskeyword(name) or name.startswith("__"):
        raise _refused(path, name, f"{what} is made of letters, digits and _")


def _check_choice(value: Any, choices: Collection[str], path: str) -> None:
    if value not in choices:
        raise _refused(path, value, f"must be one of {', '.join(choices)}")


def _check_number(value: Any, path: str) -> None:
    """Refuse anything but a number, true, false, or a list of them."""
    for one in value if isinstance(value, list | tuple) else [value]:
        if not isinstance(one, bool) and not _is_number(one):
            raise _refused(path, value, "must be a number, true or false")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refused(path: str, value: Any, expected: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path} is {value!r}, but {expected}. skrl would run it as Python; correct {path}."
    )
