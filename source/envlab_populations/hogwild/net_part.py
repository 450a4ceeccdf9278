"""The part ``net`` of a spec in envlab's terms: networks, optimizer and target networks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping
from typing import Any

from envlab.skrl.library import OFF_POLICY
from envlab_populations.hogwild.arc import read_arc
from envlab_populations.hogwild.cfg import (
    ACTIVATIONS,
    BATCH_NORM,
    CROSSQ,
    LAYER_NORM,
    OPTIMIZERS,
    REINFORCE,
    SARSA,
    NetCfg,
)
from envlab_populations.hogwild.part import Part

VALUES = ("dqn", "ddqn", SARSA)
"""Algorithms that learn values of actions alone."""
MOST_PARAMETERS = 2**27
"""Limit of a network: half a GB, many times the need of the tasks here."""
KINDS = (
    *("MLPNet", "DuelingMLPNet", "ConvNet", "DuelingConvNet"),
    *("RecurrentNet", "TorchArcNet"),
)
"""Supported kinds of networks."""
_LEAST = (1, 1, 1, 0, 1)
"""Smallest numbers of a convolution: output channels, kernel, stride, padding, dilation."""
_OPTIMIZERS = {
    **dict.fromkeys(("Adam", "GlobalAdam"), "adam"),
    "AdamW": "adamw",
    "RAdam": "radam",
    "Lookahead": "lookahead",
    **dict.fromkeys(("RMSprop", "GlobalRMSprop"), "rmsprop"),
}


def read_net(agent: dict[str, Any], net: Part, distributed: str, num_envs: int) -> None:
    """Read networks, optimizer and target networks."""
    settings, kind = agent["settings"], agent["algorithm"]
    name = net.take("type", "MLPNet")
    if name not in KINDS:
        raise net.refusal("type", name, f"only {', '.join(map(repr, KINDS))} are made here")
    for key in ("spectral_norm", *(("batch_norm",) if kind != CROSSQ else ())):
        net.refuse(key, "networks are plain here: set it to false")
    is_shared = net.flag("shared") and kind in ("a2c", "ppo")
    inits = {None: "default", "orthogonal_": "orthogonal"}
    inits |= {f"{one}_": one for one in ("xavier_uniform", "kaiming_uniform")}
    agent["net"] = {
        **_body(net, name),
        "shared": is_shared,
        "dueling": "Dueling" in name,
        "policy_gain": float(net.number("actor_init_std", 0.0)) * is_shared,
        "value_gain": float(net.number("critic_init_std", 0.0)) * is_shared,
        "init": net.choice("init_fn", None, inits),
        "initial_log_std": float(net.take("log_std_init", 0.0)),
    }
    clip = float(net.number("clip_grad_val", 0.0))
    if kind in VALUES:
        agent["clip_grad_norm"] = clip
    else:
        settings["grad_norm_clip"] = clip
    losses = {"MSELoss": "mse", "SmoothL1Loss": "huber", "HuberLoss": "huber"}
    if kind == REINFORCE:
        net.take("loss_spec")  # of values, which it lacks
    agent["loss"] = _named(net, "loss_spec", "MSELoss", losses, "loss")
    agent["optimizer"], (actor, critic) = _optimizer(net, distributed)
    if is_shared or net.flag("use_same_optim"):  # the actor's, as in SLM-Lab
        critic = actor
    rates = (_rate(actor), _rate(critic))
    agent["optimizer_settings"] = {
        key: value for key, value in actor.items() if key not in ("name", "lr", "optimizer")
    }
    settings["learning_rate"] = rates[0]
    if rates[0] != rates[1] and kind in ("sac", "td3", "ddpg", CROSSQ):
        settings["learning_rate"] = [*rates, rates[0]][: 3 if kind in ("sac", CROSSQ) else 2]
    elif rates[0] != rates[1] and kind in ("a2c", "ppo"):
        agent["critic_learning_rate"] = rates[1]
    elif rates[0] != rates[1]:
        raise net.refusal("critic_optim_spec", critic, f"{kind} has one network: give one rate")
    agent["learning_rate_factor"] = _scheduler(net, num_envs)
    if kind in OFF_POLICY:
        _targets(agent, kind, net, num_envs)
    if net.flag("bfloat16"):
        agent["precision"] = "auto"


def read_critic_net(agent: dict[str, Any], net: Part, critic_net: Any) -> None:
    """Read the layers of CrossQ's critics; all else must be as in ``agent.net``.

    Raises:
        ConfigurationError: If something else differs.
    """
    if not isinstance(critic_net, dict):
        raise net.refusal("critic_net", critic_net, "must be a network as agent.net is")
    critic = Part("agent.critic_net", critic_net)
    body = _body(critic, critic.take("type", "MLPNet"))
    layers = body.pop("layers", None) or NetCfg(**body).body
    agent["net"] |= {key: value for key, value in body.items() if key.startswith("norm_")}
    agent["net"]["critic_layers"] = layers
    shape = ("type", "arc", "hid_layers", "hid_layers_activation", "layer_norm", "batch_norm")
    for key in critic_net:
        if key not in (*shape, "gpu") and critic_net[key] != net.given(key):
            raise critic.refusal(
                key, critic_net[key], f"agent.net has {net.given(key)!r}: only layers differ here"
            )


def _body(net: Part, name: str) -> dict[str, Any]:
    """Return all layers except the last; ``layer_norm`` comes before a layer's activation."""
    names = {name: name for name in ACTIVATIONS} | {"leakyrelu": "leaky_relu"}
    activation = net.choice("hid_layers_activation", "relu", names)
    if name == "TorchArcNet":
        return _body_of_arc(net) | {"pixel_scale": _pixel_scale(net)}
    if "Conv" in name:
        return _body_of_images(net, activation)
    if name == "RecurrentNet":
        return _recurrent_body(net, activation)
    sizes = _sizes(net, "hid_layers", [256, 256])
    body = {"hidden_layers": sizes, "activation": activation}
    if net.flag("batch_norm"):
        body["layers"] = [one for size in sizes for one in (size, BATCH_NORM, activation)]
        body |= {"norm_eps": 1e-5}
    if net.flag("layer_norm"):
        body["layers"] = [one for size in sizes for one in (size, LAYER_NORM, activation)]
    return body


def _body_of_arc(net: Part) -> dict[str, Any]:
    """Return the layers of ``arc``, or of ``actor_arc`` and ``critic_arc``."""
    both = net.given("actor_arc") is not None
    keys = {"actor_arc": "layers", "critic_arc": "critic_layers"} if both else {"arc": "layers"}
    found: dict[str, Any] = {}
    for key, what in keys.items():
        layers, norms = read_arc(net, key)
        _check_sizes(net, key, [layer for layer in layers if isinstance(layer, int)])
        found |= {what: layers, **norms}
    if found.get("critic_layers") == found["layers"]:
        del found["critic_layers"]
    return found


def _body_of_images(net: Part, activation: str) -> dict[str, Any]:
    """Return convolutions, and the linear layers after them."""
    convolutions = net.take("conv_hid_layers", [])
    if not isinstance(convolutions, list) or not convolutions:
        raise net.refusal("conv_hid_layers", convolutions, "must be a list of convolutions")
    for layer in convolutions:
        if not _is_convolution(layer):
            raise net.refusal(
                "conv_hid_layers",
                layer,
                "each must be [output channels, kernel, stride, padding, dilation]",
            )
    parts = [*convolutions, *_sizes(net, "fc_hid_layers", [])]
    layers = [one for part in parts for one in (part, activation)]
    return {"layers": layers, "pixel_scale": _pixel_scale(net)}


def _recurrent_body(net: Part, activation: str) -> dict[str, Any]:
    """Return linear layers, and the cells after them."""
    net.refuse("bidirectional", "cells see one observation, in one direction: set it to false")
    sizes = _sizes(net, "fc_hid_layers", [])
    cells = {name: name.lower() for name in ("GRU", "LSTM", "RNN")}
    return {
        "hidden_layers": sizes,
        "activation": activation,
        "recurrent": net.choice("cell_type", "GRU", cells),
        "recurrent_size": net.count("rnn_hidden_size", 64),
        "recurrent_layers": net.count("rnn_num_layers", 1),
        "sequence_length": net.count("seq_len", 1),
    }


def _is_convolution(layer: Any) -> bool:
    return (
        isinstance(layer, list)
        and [type(number) for number in layer] == [int] * len(_LEAST)
        and all(number >= least for number, least in zip(layer, _LEAST, strict=True))
    )


def _pixel_scale(net: Part) -> float:
    """Return the factor of images from 0 to 1: SLM-Lab's are bytes, or normalised."""
    return 1.0 if net.flag("normalize") else 255.0


def _sizes(net: Part, key: str, default: list[int]) -> list[int]:
    sizes: list[int] = net.take(key, default)
    if not isinstance(sizes, list) or any(type(one) is not int or one < 1 for one in sizes):
        raise net.refusal(key, sizes, "must be a list of sizes, each at least 1")
    _check_sizes(net, key, sizes)
    return sizes


def _check_sizes(net: Part, key: str, sizes: list[int]) -> None:
    count = sum(math.prod(pair) for pair in itertools.pairwise(sizes))
    if max([count, *sizes]) > MOST_PARAMETERS:
        raise net.refusal(key, sizes, f"makes more than {MOST_PARAMETERS:,} parameters: use fewer")


def _named(net: Part, key: str, default: str | None, known: Mapping[Any, Any], what: str) -> Any:
    """Return our counterpart of the name in ``{name: ...}``."""
    name = net.part(key).get("name", default)
    if not isinstance(name, Hashable) or name not in known:
        names = ", ".join(repr(one) for one in known if one is not None)
        raise net.refusal(f"{key}.name", name, f"the {what} must be {names}")
    return known[name]


def _optimizer(net: Part, distributed: str) -> tuple[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return torch's optimizer, and its settings for actor and critic."""
    common = net.part("optim_spec")
    actor = net.part("actor_optim_spec") or common
    critic = net.part("critic_optim_spec") or common or actor
    for key, given in (("actor_optim_spec", actor), ("critic_optim_spec", critic)):
        _check_optimizer(net, "optim_spec" if given is common else key, given, distributed)
    kinds = {_OPTIMIZERS[given.get("name", "Adam")] for given in (actor, critic)}
    if len(kinds) > 1 or {**actor, "lr": 0, "name": 0} != {**critic, "lr": 0, "name": 0}:
        raise net.refusal(
            "critic_optim_spec", critic, "actor and critic need one kind, which differs in lr alone"
        )
    return kinds.pop(), (actor, critic)


def _check_optimizer(net: Part, key: str, given: dict[str, Any], distributed: str) -> None:
    name = given.get("name", "Adam")
    if not isinstance(name, Hashable) or name not in _OPTIMIZERS:
        how = "cannot be shared: its state is not known" if distributed != "false" else ""
        raise net.refusal(
            f"{key}.name",
            name,
            f"{how or 'is not used here'}; use one of {', '.join(_OPTIMIZERS)}",
        )
    known = OPTIMIZERS[_OPTIMIZERS[name]]
    for inner, value in given.items():
        path = f"{key}.{inner}"
        if name == "Lookahead" and inner == "optimizer":
            if value != "RAdam":
                raise net.refusal(path, value, "only 'RAdam' looks ahead here")
            continue
        if inner not in ("name", "lr", *known):
            raise net.refusal(path, value, f"only lr, {', '.join(known)} of {name} are read")
        if inner == "k" and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise net.refusal(path, value, "must be a whole number of at least 1")
        shares = value if inner == "betas" else [value] if inner == "alpha" else []
        if not isinstance(shares, list) or (inner == "betas" and len(shares) != 2):
            raise net.refusal(path, value, "must be a list of two numbers")
        if any(not _is_number(share) or not 0 <= share < 1 for share in shares):
            raise net.refusal(path, value, "must be from 0 to less than 1")
        if inner in ("eps", "weight_decay") and (not _is_number(value) or not value >= 0):
            raise net.refusal(path, value, "must be a number of at least 0")
    if not _is_number(_rate(given)) or not _rate(given) > 0:
        raise net.refusal(f"{key}.lr", _rate(given), "must be a number above 0")


def _rate(given: Mapping[str, Any]) -> Any:
    return given.get("lr", 1e-3)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _scheduler(net: Part, num_envs: int) -> str:
    """Return the factor of learning rates, as a formula in steps of the environments.

    ``step_size`` and ``milestones`` are in a session's frames, as in SLM-Lab 4, from which specs
    with these schedulers come; its version 5 counts updates.
    """
    given, frames = net.part("lr_scheduler_spec"), f"timestep * {num_envs}"
    if not given:
        return "1"
    name, gamma = given.get("name"), given.get("gamma", 0.1)
    if name == "LinearToZero":
        end = given.get("frame")
        if end is None:
            return "1 - timestep / timesteps"
        _check_frames(net, "frame", [end])
        return f"max(0, 1 - {frames} / {float(end)})"
    if name == "LinearToMin":
        last, least = given.get("frame"), given.get("min_factor", 0.0)
        _check_frames(net, "frame", [last])
        if not _is_number(least) or not 0 <= least < 1:
            raise net.refusal("lr_scheduler_spec.min_factor", least, "must be from 0 to below 1")
        return f"max({float(least)}, 1 - {frames} / {float(last or 1)})"
    if name not in ("StepLR", "MultiStepLR"):
        raise net.refusal(
            "lr_scheduler_spec.name",
            name,
            "the scheduler must be 'LinearToZero', 'LinearToMin', 'StepLR', 'MultiStepLR'",
        )
    if not _is_number(gamma) or not 0 < gamma <= 1:
        raise net.refusal("lr_scheduler_spec.gamma", gamma, "must be above 0 and at most 1")
    key = "step_size" if name == "StepLR" else "milestones"
    ends: Any = [given.get(key)] if name == "StepLR" else given.get(key)
    _check_frames(net, key, ends)
    if name == "StepLR":  # the evaluator refuses powers above some millions
        return f"{float(gamma)} ** min(1000000, {frames} // {float(ends[0])})"
    return " * ".join(f"{float(gamma)} ** min(1, {frames} // {float(end)})" for end in ends)


def _check_frames(net: Part, key: str, frames: Any) -> None:
    if not isinstance(frames, list) or not all(
        _is_number(frame) and frame >= 1 for frame in frames
    ):
        raise net.refusal(f"lr_scheduler_spec.{key}", frames, "must be frames, at least 1")
    if not frames:
        raise net.refusal(f"lr_scheduler_spec.{key}", frames, "must not be empty")


def _targets(agent: dict[str, Any], kind: str, net: Part, num_envs: int) -> None:
    """Read how target networks follow: DQN's by frames, others at each gradient step.

    SLM-Lab 5 moves DQN's targets once a step of all environments, with or without a gradient step
    in between; here all moves between two updates of the network are made at once.
    """
    settings = agent["settings"]
    how, frames = net.take("update_type", "polyak"), net.count("update_frequency", 1)
    coefficient = float(net.number("polyak_coef", 0.005))
    if how not in ("polyak", "replace"):
        raise net.refusal("update_type", how, "must be 'polyak' or 'replace'")
    if "dqn" in kind:
        steps, updates = agent["update_interval"], 1
        if how == "replace":
            updates = max(1, round(frames / (steps * num_envs)))
        settings["target_update_interval"] = updates * settings["gradient_steps"]
        settings["polyak"] = 1.0 if how == "replace" else 1.0 - (1.0 - coefficient) ** steps
        return
    if how == "replace" or frames != 1:
        raise net.refusal(
            "update_type", how, f"targets of {kind} follow by 'polyak' with update_frequency 1"
        )
    settings["polyak"] = coefficient
