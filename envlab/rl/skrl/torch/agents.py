"""skrl's agents on PyTorch from a configuration, as its runner makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envlab.rl.skrl.cfg import SkrlCfg
from envlab.rl.skrl.library import load_skrl
from envlab.rl.skrl.settings import library_settings
from envlab.rl.skrl.torch.ranks import torch_component

load_skrl()

from skrl.memories.torch import RandomMemory  # noqa: E402


def make_agent(agent_class: Any, models: dict[str, Any], env: Any, cfg: SkrlCfg) -> Any:
    """Return one agent.

    Args:
        agent_class: skrl's class.
        models: Networks by role, under ``agent``.
        env: The environment as skrl sees it.
        cfg: The configuration, resolved.
    """
    settings = library_settings(cfg.for_library()["agent"], torch_component)
    sizes = {
        "observation_preprocessor": env.observation_space,
        "state_preprocessor": env.state_space,
        "value_preprocessor": 1,
    }
    special: dict[str, Any] = {}
    if cfg.algorithm == "amp":
        sizes["amp_observation_preprocessor"] = env.amp_observation_space
        special = {
            "amp_observation_space": env.amp_observation_space,
            "motion_dataset": _memory(cfg.motion_dataset, cfg, 1, env.device),
            "reply_buffer": _memory(cfg.reply_buffer, cfg, 1, env.device),
            "collect_reference_motions": env.collect_reference_motions,
        }
    for name, size in sizes.items():
        if settings.get(name) is not None:
            settings[f"{name}_kwargs"] |= {"size": size, "device": env.device}
    for name in ("exploration_noise", "smooth_regularization_noise"):
        if settings.get(name) is not None:
            settings[f"{name}_kwargs"] |= {"device": env.device}
    return agent_class(
        models=models["agent"],
        memory=_memory(cfg.memory, cfg, env.num_envs, env.device),
        observation_space=env.observation_space,
        state_space=env.state_space,
        action_space=env.action_space,
        device=env.device,
        cfg=settings | {"experiment": cfg.for_library()["agent"]["experiment"]},
        **special,
    )


def make_agents(agent_class: Any, models: dict[str, Any], env: Any, cfg: SkrlCfg) -> Any:
    """Return several agents as one; networks are by agent, and else it is as :func:`make_agent`.

    Settings of components are given for each agent, because skrl takes a dictionary that is empty,
    or that lacks the agents' names, for a wrong one.
    """
    settings = library_settings(cfg.for_library()["agent"], torch_component)
    names = env.possible_agents
    sizes: dict[str, Any] = {
        "observation_preprocessor": env.observation_spaces,
        "state_preprocessor": env.state_spaces,
        "value_preprocessor": dict.fromkeys(names, 1),
    }
    for key in [name for name in settings if name.endswith("_kwargs")]:
        base = key.removesuffix("_kwargs")
        shared = settings[key]
        if base in sizes:
            settings[key] = {
                name: {**shared, "size": sizes[base][name], "device": env.device} for name in names
            }
        else:
            settings[key] = dict.fromkeys(names, shared)
    memories = {name: _memory(cfg.memory, cfg, env.num_envs, env.device) for name in names}
    return agent_class(
        possible_agents=names,
        models=models,
        memories=memories,
        observation_spaces=env.observation_spaces,
        state_spaces=env.state_spaces,
        action_spaces=env.action_spaces,
        device=env.device,
        cfg=settings | {"experiment": cfg.for_library()["agent"]["experiment"]},
    )


def _memory(values: Mapping[str, Any] | None, cfg: SkrlCfg, num_envs: int, device: Any) -> Any:
    assert values is not None
    size = int(values["memory_size"])
    return RandomMemory(
        memory_size=cfg.agent["rollouts"] if size < 0 else size,
        num_envs=num_envs,
        device=device,
        replacement=bool(values.get("replacement", False)),
    )
