"""The part ``net`` of a spec in envlab's terms: networks, optimizer and target networks."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

from envlab.config.translator import Refuse, Rows, Take, Translator
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
_INITS = {None: "default", "orthogonal_": "orthogonal"}
_INITS |= {f"{one}_": one for one in ("xavier_uniform", "kaiming_uniform")}
_LOSSES = {"MSELoss": "mse", "SmoothL1Loss": "huber", "HuberLoss": "huber"}
_PLAIN = Refuse("networks are plain here: set it to false")
NET: Rows = {
    "spectral_norm": _PLAIN,
    "init_fn": Take("net.init", partial(Translator.choice, known=_INITS)),
    "log_std_init": Take("net.initial_log_std", partial(Translator.number, least=-math.inf), 0.0),
}
RECURRENT: Rows = {
    "bidirectional": Refuse("cells see one observation, in one direction: set it to false"),
    "cell_type": Take(
        "recurrent",
        partial(Translator.choice, known={name: name.lower() for name in ("GRU", "LSTM", "RNN")}),
        "GRU",
    ),
    "rnn_hidden_size": Take("recurrent_size", Translator.count, 64),
    "rnn_num_layers": Take("recurrent_layers", Translator.count, 1),
    "seq_len": Take("sequence_length", Translator.count, 1),
}


_share = partial(Translator.number, below=1.0)


def _shares(part: Translator, key: str, default: Any) -> list[float] | None:
    shares = part.take(key)
    if shares is None:
        return None
    if not isinstance(shares, list) or len(shares) != 2:
        raise part.refusal(key, shares, "must be a list of two numbers")
    if not all(_is_number(share) and 0 <= share < 1 for share in shares):
        raise part.refusal(key, shares, "must be numbers of at least 0 and below 1")
    return shares


OPTIMIZER: Rows = {
    "betas": Take("betas", _shares),
    "alpha": Take("alpha", _share),
    "eps": Take("eps", Translator.number),
    "k": Take("k", Translator.count),
    "weight_decay": Take("weight_decay", Translator.number),
}
"""Settings of optimizers, of which each has those of :data:`OPTIMIZERS`."""


def read_net(agent: dict[str, Any], net: Translator, num_envs: int) -> None:
    """Read networks, optimizer and target networks."""
    settings, kind = agent["settings"], agent["algorithm"]
    name = net.choice("type", "MLPNet", known=KINDS)
    is_shared = net.flag("shared") and kind in ("a2c", "ppo")
    agent["net"] = {
        **_body(net, name),
        "shared": is_shared,
        "dueling": "Dueling" in name,
        "policy_gain": net.number("actor_init_std", 0.0) * is_shared,
        "value_gain": net.number("critic_init_std", 0.0) * is_shared,
    }
    rows = NET if kind == CROSSQ else NET | {"batch_norm": _PLAIN}
    clip = "clip_grad_norm" if kind in VALUES else "settings.grad_norm_clip"
    net.lay(agent, rows, {"clip_grad_val": Take(clip, Translator.number, 0.0)})
    if kind == REINFORCE:
        net.take("loss_spec")  # of values, which it lacks
    else:
        net.mapping("loss_spec")
    agent["loss"] = net.part("loss_spec").choice("name", "MSELoss", known=_LOSSES)
    actor, critic = _optimizers(net)
    if is_shared or net.flag("use_same_optim"):  # the actor's, as in SLM-Lab
        critic = actor
    rates = (actor["lr"], critic["lr"])
    agent["optimizer"] = actor["name"]
    agent["optimizer_settings"] = {k: one for k, one in actor.items() if k not in ("name", "lr")}
    settings["learning_rate"] = rates[0]
    if rates[0] != rates[1] and kind in ("sac", "td3", "ddpg", CROSSQ):
        settings["learning_rate"] = [*rates, rates[0]][: 3 if kind in ("sac", CROSSQ) else 2]
    elif rates[0] != rates[1] and kind in ("a2c", "ppo"):
        agent["critic_learning_rate"] = rates[1]
    elif rates[0] != rates[1]:
        why = f"{kind} has one network: give one rate"
        raise net.refusal("critic_optim_spec", net.given("critic_optim_spec"), why)
    agent["learning_rate_factor"] = _scheduler(net, num_envs)
    if kind in OFF_POLICY:
        _targets(agent, kind, net, num_envs)
    if net.flag("bfloat16"):
        agent["precision"] = "auto"


def read_critic_net(agent: dict[str, Any], file: Translator) -> None:
    """Read the layers of CrossQ's critics; all else must be as in ``agent.net``.

    Raises:
        ConfigurationError: If something else differs.
    """
    net, critic = file.part("agent.net"), file.part("agent.critic_net")
    given = file.mapping("agent.critic_net")
    body = _body(critic, critic.choice("type", "MLPNet", known=KINDS))
    layers = body.pop("layers", None) or NetCfg(**body).body
    agent["net"] |= {key: value for key, value in body.items() if key.startswith("norm_")}
    agent["net"]["critic_layers"] = layers
    shape = ("type", "arc", "hid_layers", "hid_layers_activation", "layer_norm", "batch_norm")
    for key, value in given.items():
        if key not in (*shape, "gpu") and value != net.given(key):
            why = f"agent.net has {net.given(key)!r}: only layers differ here"
            raise critic.refusal(key, value, why)


def _body(net: Translator, name: str) -> dict[str, Any]:
    """Return all layers except the last; ``layer_norm`` comes before a layer's activation."""
    names = {name: name for name in ACTIVATIONS} | {"leakyrelu": "leaky_relu"}
    activation = net.choice("hid_layers_activation", "relu", known=names)
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


def _body_of_arc(net: Translator) -> dict[str, Any]:
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


def _body_of_images(net: Translator, activation: str) -> dict[str, Any]:
    """Return convolutions, and the linear layers after them."""
    convolutions = net.take("conv_hid_layers", [])
    if not isinstance(convolutions, list) or not convolutions:
        raise net.refusal("conv_hid_layers", convolutions, "must be a list of convolutions")
    for layer in convolutions:
        if not _is_convolution(layer):
            why = "each must be [output channels, kernel, stride, padding, dilation]"
            raise net.refusal("conv_hid_layers", layer, why)
    parts = [*convolutions, *_sizes(net, "fc_hid_layers", [])]
    layers = [one for part in parts for one in (part, activation)]
    return {"layers": layers, "pixel_scale": _pixel_scale(net)}


def _recurrent_body(net: Translator, activation: str) -> dict[str, Any]:
    """Return linear layers, and the cells after them."""
    sizes = _sizes(net, "fc_hid_layers", [])
    return {"hidden_layers": sizes, "activation": activation, **net.translated(RECURRENT)}


def _is_convolution(layer: Any) -> bool:
    return (
        isinstance(layer, list)
        and [type(number) for number in layer] == [int] * len(_LEAST)
        and all(number >= least for number, least in zip(layer, _LEAST, strict=True))
    )


def _pixel_scale(net: Translator) -> float:
    """Return the factor of images from 0 to 1: SLM-Lab's are bytes, or normalised."""
    return 1.0 if net.flag("normalize") else 255.0


def _sizes(net: Translator, key: str, default: list[int]) -> list[int]:
    sizes = net.sizes(key, default)
    _check_sizes(net, key, sizes)
    return sizes


def _check_sizes(net: Translator, key: str, sizes: list[int]) -> None:
    count = sum(math.prod(pair) for pair in itertools.pairwise(sizes))
    if max([count, *sizes]) > MOST_PARAMETERS:
        raise net.refusal(key, sizes, f"makes more than {MOST_PARAMETERS:,} parameters: use fewer")


def _optimizers(net: Translator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the actor's optimizer and of the critic's: its name, lr and others."""
    keys = ("optim_spec", "actor_optim_spec", "critic_optim_spec")
    common, actor, critic = (net.mapping(key) for key in keys)
    actors = keys[1] if actor else keys[0]
    made: dict[str, Any] = _optimizer(net, actors)
    other = _optimizer(net, keys[2] if critic else keys[0] if common else actors)
    if made | {"lr": 0} != other | {"lr": 0}:
        why = "actor and critic need one kind, which differs in lr alone"
        raise net.refusal(keys[2], critic, why)
    return made, other


def _optimizer(net: Translator, key: str) -> dict[str, Any]:
    """Return torch's optimizer by our name, its rate and its other settings."""
    part = net.part(key)
    name = part.choice("name", "Adam", known=_OPTIMIZERS)
    if name == "lookahead":
        part.refuse("optimizer", "only 'RAdam' looks ahead here", "RAdam")
    rate = part.number("lr", 1e-3)
    if not 0 < rate < math.inf:
        raise part.refusal("lr", rate, "must be a number above 0")
    found = part.translated({key: OPTIMIZER[key] for key in OPTIMIZERS[name]})
    for path in part.report():
        inner = path.rpartition(".")[2]
        why = f"only lr, {', '.join(OPTIMIZERS[name])} of {name} are read"
        raise part.refusal(inner, part.given(inner), why)
    return {"name": name, "lr": rate, **found}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _scheduler(net: Translator, num_envs: int) -> str:
    """Return the factor of learning rates, as a formula in steps of the environments.

    ``step_size`` and ``milestones`` are in a session's frames, as in SLM-Lab 4, from which specs
    with these schedulers come; its version 5 counts updates.
    """
    given, part = net.mapping("lr_scheduler_spec"), net.part("lr_scheduler_spec")
    if not given:
        return "1"
    frames = f"timestep * {num_envs}"
    kinds = ("LinearToZero", "LinearToMin", "StepLR", "MultiStepLR")
    name = part.choice("name", known=kinds)
    if name == "LinearToZero" and given.get("frame") is None:
        return "1 - timestep / timesteps"
    key = {"StepLR": "step_size", "MultiStepLR": "milestones"}.get(name, "frame")
    ends = part.take(key)
    ends = ends if name == "MultiStepLR" else [ends]
    if not isinstance(ends, list) or not ends or not all(_is_number(n) and n >= 1 for n in ends):
        raise part.refusal(key, given.get(key), "must be frames, at least 1")
    if name == "LinearToZero":
        return f"max(0, 1 - {frames} / {float(ends[0])})"
    if name == "LinearToMin":
        least = _share(part, "min_factor", 0.0)
        return f"max({least}, 1 - {frames} / {float(ends[0])})"
    gamma = part.number("gamma", 0.1)
    if not 0 < gamma <= 1:
        raise part.refusal("gamma", gamma, "must be above 0 and at most 1")
    if name == "StepLR":  # the evaluator refuses powers above some millions
        return f"{gamma} ** min(1000000, {frames} // {float(ends[0])})"
    return " * ".join(f"{gamma} ** min(1, {frames} // {float(end)})" for end in ends)


def _targets(agent: dict[str, Any], kind: str, net: Translator, num_envs: int) -> None:
    """Read how target networks follow: DQN's by frames, others at each gradient step.

    SLM-Lab 5 moves DQN's targets once a step of all environments, with or without a gradient step
    in between; here all moves between two updates of the network are made at once.
    """
    settings = agent["settings"]
    how = net.choice("update_type", "polyak", known=("polyak", "replace"))
    frames = net.count("update_frequency", 1)
    coefficient = net.number("polyak_coef", 0.005)
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
