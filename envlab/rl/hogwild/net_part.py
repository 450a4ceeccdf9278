"""The part ``net`` of a spec in envlab's terms: networks, optimizer and target networks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping
from typing import Any

from envlab.rl.hogwild.arc import read_arc
from envlab.rl.hogwild.cfg import ACTIVATIONS, LAYER_NORM
from envlab.rl.hogwild.part import Part
from envlab.rl.skrl.library import OFF_POLICY

MOST_PARAMETERS = 2**27
"""Of a network: half a GB, many times what the tasks here need."""
_OPTIMIZERS = {
    **dict.fromkeys(("Adam", "GlobalAdam"), "adam"),
    "AdamW": "adamw",
    **dict.fromkeys(("RMSprop", "GlobalRMSprop"), "rmsprop"),
}


def read_net(agent: dict[str, Any], net: Part, distributed: str, num_envs: int) -> None:
    """Read networks, optimizer and target networks."""
    settings, kind = agent["settings"], agent["algorithm"]
    name = net.take("type", "MLPNet")
    if name not in ("MLPNet", "TorchArcNet"):
        raise net.refusal("type", name, "only 'MLPNet' and 'TorchArcNet' are made here")
    for key in ("shared", "batch_norm", "spectral_norm"):
        net.refuse(key, "networks are apart and plain here: set it to false")
    inits = {None: "default", "orthogonal_": "orthogonal"}
    inits |= {f"{one}_": one for one in ("xavier_uniform", "kaiming_uniform")}
    agent["net"] = {
        **_body(net, is_arc=name == "TorchArcNet"),
        "init": net.choice("init_fn", None, inits),
        "initial_log_std": float(net.take("log_std_init", 0.0)),
    }
    clip = float(net.number("clip_grad_val", 0.0))
    if "dqn" in kind:
        agent["clip_grad_norm"] = clip
    else:
        settings["grad_norm_clip"] = clip
    losses = {"MSELoss": "mse", "SmoothL1Loss": "huber", "HuberLoss": "huber"}
    agent["loss"] = _named(net, "loss_spec", "MSELoss", losses, "loss")
    agent["optimizer"], rates = _optimizer(net, distributed)
    actor, critic = rates
    if actor != critic and kind not in ("sac", "td3", "ddpg"):
        raise net.refusal(
            "critic_optim_spec", {"lr": critic}, f"{kind} has one optimizer: give one rate"
        )
    settings["learning_rate"] = actor
    if actor != critic:
        settings["learning_rate"] = [actor, critic, actor][: 3 if kind == "sac" else 2]
    scheduler = _named(
        net, "lr_scheduler_spec", None, {None: 1.0, "LinearToZero": 0.0}, "scheduler"
    )
    agent["learning_rate_end"] = scheduler
    if kind in OFF_POLICY:
        _targets(agent, kind, net, num_envs)
    if net.flag("bfloat16"):
        agent["precision"] = "auto"


def _body(net: Part, *, is_arc: bool) -> dict[str, Any]:
    """Return all layers but the last; ``layer_norm`` comes between a layer and its activation."""
    activation = net.choice("hid_layers_activation", "relu", {k: k for k in ACTIVATIONS})
    if is_arc:
        layers = read_arc(net)
        _check_sizes(net, "arc", [one for one in layers if isinstance(one, int)])
        return {"layers": layers}
    sizes = net.take("hid_layers", [256, 256])
    if not isinstance(sizes, list) or any(type(one) is not int or one < 1 for one in sizes):
        raise net.refusal("hid_layers", sizes, "must be a list of sizes, each at least 1")
    _check_sizes(net, "hid_layers", sizes)
    body = {"hidden_layers": sizes, "activation": activation}
    if net.flag("layer_norm"):
        body["layers"] = [one for size in sizes for one in (size, LAYER_NORM, activation)]
    return body


def _check_sizes(net: Part, key: str, sizes: list[int]) -> None:
    count = sum(math.prod(pair) for pair in itertools.pairwise(sizes))
    if max([count, *sizes]) > MOST_PARAMETERS:
        raise net.refusal(key, sizes, f"makes more than {MOST_PARAMETERS:,} parameters: use fewer")


def _named(net: Part, key: str, default: str | None, known: Mapping[Any, Any], what: str) -> Any:
    """Return what stands for the name in ``{name: ...}``."""
    name = net.part(key).get("name", default)
    if not isinstance(name, Hashable) or name not in known:
        names = ", ".join(repr(one) for one in known if one is not None)
        raise net.refusal(f"{key}.name", name, f"the {what} must be {names}")
    return known[name]


def _optimizer(net: Part, distributed: str) -> tuple[str, tuple[float, float]]:
    """Return torch's optimizer, and the learning rates of actor and critic."""
    common = net.part("optim_spec")
    actor = net.part("actor_optim_spec") or common
    critic = net.part("critic_optim_spec") or common or actor
    for key, given in (("actor_optim_spec", actor), ("critic_optim_spec", critic)):
        key = "optim_spec" if given is common else key
        extra = sorted(set(given) - {"name", "lr"})
        if extra:
            raise net.refusal(f"{key}.{extra[0]}", given[extra[0]], "only name and lr are read")
        name = given.get("name", "Adam")
        if not isinstance(name, Hashable) or name not in _OPTIMIZERS:
            how = "cannot be shared: its state is not known" if distributed != "false" else ""
            raise net.refusal(
                f"{key}.name",
                name,
                f"{how or 'is not used here'}; use one of {', '.join(_OPTIMIZERS)}",
            )
        lr = given.get("lr", 1e-3)
        if not isinstance(lr, int | float) or not lr > 0:
            raise net.refusal(f"{key}.lr", lr, "must be a number above 0")
    kinds = {_OPTIMIZERS[given.get("name", "Adam")] for given in (actor, critic)}
    if len(kinds) > 1:
        raise net.refusal("critic_optim_spec", critic, "actor and critic need one kind")
    return kinds.pop(), (float(actor.get("lr", 1e-3)), float(critic.get("lr", 1e-3)))


def _targets(agent: dict[str, Any], kind: str, net: Part, num_envs: int) -> None:
    """Read how target networks follow: DQN's by frames, those of others at each gradient step.

    SLM-Lab 5 moves DQN's targets once a step of all environments, with or without gradient steps
    since; what it does between two updates of the network is done at once here.
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
