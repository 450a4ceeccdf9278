"""A spec in envlab's terms: the task, the number of environments, and the learning settings.

Nothing of a spec is ignored silently. A key without effect here is listed in
:attr:`Plan.without_effect`, and a key that a user would miss is refused.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envlab.config import from_dict
from envlab.errors import ConfigurationError, did_you_mean
from envlab.registry import get_task, list_tasks
from envlab.skrl.library import OFF_POLICY
from envlab_populations.hogwild import atari
from envlab_populations.hogwild.cfg import CROSSQ, RANDOM, REINFORCE, SARSA, HogwildCfg
from envlab_populations.hogwild.net_part import read_critic_net, read_net
from envlab_populations.hogwild.part import Part
from envlab_populations.hogwild.spec import Spec
from envlab_populations.hogwild.version_3 import in_version_4

logger = logging.getLogger(f"envlab.{__name__}")

NAMES = {
    "SoftActorCritic": "sac",
    "ActorCritic": "a2c",
    "PPO": "ppo",
    "DQN": "dqn",
    "DoubleDQN": "ddqn",
    "TD3": "td3",
    "DDPG": "ddpg",
    "VanillaDQN": "dqn",
    "Random": RANDOM,
    "Reinforce": REINFORCE,
    "SARSA": SARSA,
    "SIL": "a2c",
    "PPOSIL": "ppo",
    "CrossQ": CROSSQ,
}
"""skrl's names of SLM-Lab's algorithms, and of two more."""
LOG_FREQUENCY = 1000
"""Frames between two points of a session's graph, if a spec does not say."""
DEV_FRAMES = 2000
"""Frames of a session of the mode ``dev``, which also runs until it has learned."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The training of a trial."""

    spec: Spec
    task: str
    """Id of the task."""
    env: Mapping[str, Any]
    """Values over the task's configuration."""
    agent: HogwildCfg
    """The sessions' configuration; ``seed`` is the trial's."""
    max_frame: int
    """The budget in frames of all sessions."""
    log_frequency: int
    """Frames of a session between two points of its graph."""
    wants_gpu: bool
    is_dev: bool = False
    """Whether this is a session that tries a spec, with a check that it learns."""
    without_effect: tuple[str, ...]
    """Keys of the spec without effect here."""


def make_plan(spec: Spec, *, dev: bool = False) -> Plan:
    """Return a spec in envlab's terms.

    Args:
        spec: The spec.
        dev: Whether one short session is wanted.

    Raises:
        EnvlabError: Naming the key that cannot be honoured and what to do.
    """
    spec = in_version_4(spec)
    env, meta = Part("env", spec.env), Part("meta", spec.meta)
    task, env_values, num_envs = _environment(env)
    max_frame = env.count("max_frame", None)
    if max_frame is None:
        raise ConfigurationError("env.max_frame is absent: say how many frames to train for.")
    log_frequency = meta.count("log_frequency", LOG_FREQUENCY)
    sessions = 1 if dev else meta.count("max_session", 1)
    for key in ("max_trial", "search_resources", "search_scheduler"):
        meta.take(key)  # for the mode search
    distributed = _distributed(meta)
    agent, parts, wants_gpu = _agent(spec, num_envs, distributed)
    steps = agent.pop("rollouts", None) or max(1, log_frequency // num_envs)
    frames = max_frame // sessions
    if dev:
        starts = int(agent["settings"].get("learning_starts", 0)) * num_envs
        frames = min(frames, max(DEV_FRAMES, 2 * steps * num_envs, 2 * starts))
    agent |= {
        "distributed": distributed,
        "num_sessions": sessions,
        "num_steps_per_env": steps,
        "max_iterations": max(1, frames // (steps * num_envs)),
        "experiment_name": f"{spec.name}_dev" if dev else spec.name,  # hidden from @latest
        "seed": meta.count("random_seed", 0, least=0),
    }
    _rewards_and_observations(agent, env, is_atari=atari.__name__ in task)
    _sequences(agent, env, env_values.get("num_frames", 1))
    return Plan(
        spec=spec,
        task=task,
        env=env_values,
        agent=from_dict(HogwildCfg, agent, "agent").resolved(),
        max_frame=max_frame,
        log_frequency=log_frequency,
        wants_gpu=wants_gpu,
        is_dev=dev,
        without_effect=tuple(key for part in (*parts, env, meta) for key in part.without_effect()),
    )


def _distributed(meta: Part) -> str:
    words = {False: "false", "false": "false", "shared": "shared", "synced": "synced"}
    value = meta.take("distributed", False)
    if not isinstance(value, bool | str) or value not in words:
        raise meta.refusal("distributed", value, "must be false, 'shared' or 'synced'")
    return words[value]


def _environment(env: Part) -> tuple[str, dict[str, Any], int]:
    """Return the task's id, values over its configuration, and the number of environments."""
    name, num_envs = env.take("name"), env.count("num_envs", 1)
    if not isinstance(name, str):
        raise env.refusal("name", name, "must be the id of a task, as 'Humanoid-v5'")
    if name.startswith("playground/"):
        raise env.refusal(
            "name",
            name,
            "MuJoCo Playground's environments run on JAX, and not here: name one of envlab list",
        )
    own = {task.id for task in list_tasks()}
    is_own = name in own or f"{name}-v0" in own or name.startswith("Isaac")
    is_atari = name.startswith(atari.GAMES)
    given = atari.task_of(name) if is_atari else name if ":" in name or is_own else f"gym:{name}"
    task = get_task(given).id
    values: dict[str, Any] = {"scene": {"num_envs": num_envs}}
    if is_atari:
        values["kwargs"] = _game_settings(env)
    limit = env.count("max_t", None)
    if limit is not None:
        if not task.startswith("gym:"):
            raise env.refusal("max_t", limit, "the task's own configuration has its time limit")
        values["max_episode_steps"] = limit
    values |= _frames(env, task, is_atari=is_atari)
    return task, values, num_envs


def _frames(env: Part, task: str, *, is_atari: bool) -> dict[str, Any]:
    """Return the settings of observations that join those of the last steps."""
    operation = env.choice("frame_op", None, {None: "", "concat": "concat", "stack": "stack"})
    if not operation:
        return {}
    count = env.count("frame_op_len", atari.STACK if is_atari else 1)
    if is_atari:  # its wrappers join them already
        if count != atari.STACK:
            raise env.refusal("frame_op_len", count, f"games have {atari.STACK} frames here")
        return {}
    if not task.startswith("gym:"):
        raise env.refusal("frame_op", operation, "the task's own configuration has its history")
    padding = env.choice("frame_padding", "reset", {"reset": "reset", "zero": "zero"})
    return {"num_frames": count, "frame_padding": padding}


def _game_settings(env: Part) -> dict[str, Any]:
    """Return the arguments of Atari's games."""
    settings: dict[str, Any] = {"life_loss_info": env.flag("life_loss_info")}
    share = env.number("repeat_action_probability", None)
    if share is not None:
        settings["repeat_action_probability"] = float(share)
    return settings


def _sequences(agent: dict[str, Any], env: Part, num_frames: int) -> None:
    """Let recurrent networks see the joined steps one after the other."""
    net = agent.get("net", {})
    if num_frames == 1 or not net.get("recurrent"):
        return
    if net["sequence_length"] != num_frames:
        raise env.refusal(
            "frame_op_len",
            num_frames,
            f"agent.net.seq_len is {net['sequence_length']}: a recurrent network sees each frame",
        )
    net["sees_steps"] = True


def _rewards_and_observations(agent: dict[str, Any], env: Part, *, is_atari: bool) -> None:
    """Read their scaling and clipping.

    As in SLM-Lab, rewards are clipped to 10 deviations by default, and to 1 for Atari's games.
    """
    settings = agent["settings"]
    scale, normalises = env.take("reward_scale"), env.flag("normalize_reward")
    if scale == "sign":
        if not is_atari:
            raise env.refusal("reward_scale", scale, "only games' whole rewards have signs here")
        env.refuse("clip_reward", "reward_scale 'sign' clips rewards: set one to null")
    elif scale is not None:
        if isinstance(scale, bool) or not isinstance(scale, int | float):
            raise env.refusal("reward_scale", scale, "must be a number")
        if normalises:
            raise env.refusal("reward_scale", scale, "normalize_reward undoes it: set one to null")
        settings["rewards_shaper_scale"] = float(scale)
    agent["normalize_rewards"] = normalises
    bounds = env.take("clip_reward", 10.0 if normalises else 1.0 if is_atari else None)
    if bounds is not None:
        pair = [-bounds, bounds] if isinstance(bounds, int | float) else bounds
        numbers = isinstance(pair, list) and all(type(one) in (int, float) for one in pair)
        if not numbers or len(pair) != 2 or not pair[0] < pair[1]:
            raise env.refusal("clip_reward", bounds, "must be a number above 0, or two that rise")
        agent["reward_bounds"] = [float(one) for one in pair]
    normalises = env.flag("normalize_obs") or env.flag("normalize_state")
    clip = env.number("clip_obs", 10.0 if normalises else None)
    if normalises:
        settings["observation_preprocessor"] = "RunningStandardScaler"
        settings["observation_preprocessor_kwargs"] = {"clip_threshold": float(clip)}
    elif clip is not None:
        raise env.refusal("clip_obs", clip, "observations are clipped with normalize_obs only")


def _agent(
    spec: Spec, num_envs: int, distributed: str
) -> tuple[dict[str, Any], tuple[Part, ...], bool]:
    """Return an agent's configuration, the parts that were read, and whether it wants a GPU."""
    algorithm = Part("agent.algorithm", spec.agent["algorithm"])
    memory = Part("agent.memory", spec.agent["memory"])
    net = Part("agent.net", spec.agent["net"])
    inner = ("algorithm", "memory", "net", "critic_net")
    rest = Part("agent", {key: spec.agent[key] for key in spec.agent if key not in inner})
    rest.take("name")  # a label
    name = algorithm.take("name")
    kind = NAMES.get(str(name)) or str(name).lower()
    if name == "HydraDQN":
        raise algorithm.refusal(
            "name", name, "SLM-Lab has had none since version 4.3 at the latest: use DoubleDQN"
        )
    if kind not in NAMES.values():
        raise algorithm.refusal(
            "name",
            name,
            f"skrl has no counterpart; use one of {', '.join(NAMES)}."
            f"{did_you_mean(str(name), NAMES)}",
        )
    agent: dict[str, Any] = {"algorithm": kind, "settings": {}, "schedules": {}}
    settings = agent["settings"]
    gamma = algorithm.number("gamma", None)
    if gamma is not None:
        settings["discount_factor"] = float(gamma)
    if kind in (*OFF_POLICY, CROSSQ):
        _off_policy(agent, algorithm, memory, num_envs)
    elif kind == SARSA:
        _sarsa(agent, algorithm, memory, num_envs)
    elif kind != RANDOM:
        _on_policy(agent, algorithm, memory, num_envs)
    if kind in ("dqn", "ddqn", SARSA):
        _exploration(agent, algorithm, num_envs)
    if name in ("SIL", "PPOSIL"):
        _imitation(agent, algorithm, memory)
    if name == "VanillaDQN":
        for key in ("update_type", "update_frequency", "polyak_coef"):
            net.refuse(key, "VanillaDQN has no target network: leave it out, or train DQN")
    if kind != RANDOM:
        read_net(agent, net, distributed, num_envs)
    if kind == CROSSQ:
        _crossq(agent, algorithm, net, spec.agent.get("critic_net"))
    elif "critic_net" in spec.agent:
        rest.take("critic_net")
        raise rest.refusal("critic_net", "...", f"{kind} has one kind of network: leave it out")
    if name == "VanillaDQN":  # targets are from the network itself, before the last step
        settings |= {"target_update_interval": 1, "polyak": 1.0}
    wants_gpu = spec.agent["net"].get("gpu") is True
    net.take("gpu")
    return agent, (rest, algorithm, memory, net), wants_gpu


def _exploration(agent: dict[str, Any], algorithm: Part, num_envs: int) -> None:
    """Read how DQN explores; ``Argmax`` of SLM-Lab's Boltzmann always takes the best action."""
    policy = algorithm.take("action_policy", "epsilon_greedy")
    if policy not in ("epsilon_greedy", "boltzmann"):
        raise algorithm.refusal("action_policy", policy, "must be 'epsilon_greedy', 'boltzmann'")
    if policy == "boltzmann":
        kind = algorithm.take("action_pdtype", "Argmax")
        if kind == "Argmax":
            logger.warning(
                "%s.action_policy is 'boltzmann' and action_pdtype 'Argmax', which always takes "
                "the best action, as in SLM-Lab. 'Categorical' explores.",
                algorithm.path,
            )
            algorithm.take("explore_var_spec")
            agent["settings"]["exploration_scheduler"] = "0.0"
            return
        if kind not in ("Categorical", "default"):  # the default of choices is the former
            raise algorithm.refusal("action_pdtype", kind, "must be 'Categorical' or 'Argmax'")
    agent["action_policy"] = policy
    formula = _formula(algorithm, "explore_var_spec", num_envs, above=policy == "boltzmann")
    agent["settings"]["exploration_scheduler"] = formula or "0.05"


SAC_ALONE = (
    *(("policy_delay", 1), ("target_entropy", "auto"), ("alpha_anneal_frames", 0)),
    *(("alpha_lr",), ("fixed_alpha",), ("symlog",), ("spectral_norm",)),
)
"""Settings of SLM-Lab's SAC that would change the result, each with the value that does not."""


def _off_policy(agent: dict[str, Any], algorithm: Part, memory: Part, num_envs: int) -> None:
    """Read the replay memory, and the schedule of learning from it.

    SLM-Lab learns every ``training_frequency`` frames, though at most once a step of all
    environments, and then ``training_iter`` times, by default once for each environment.
    """
    settings = agent["settings"]
    name = memory.take("name", "Replay")
    has_priorities = agent["algorithm"] in ("dqn", "ddqn", "sac")
    known = ("Replay", "PrioritizedReplay") if has_priorities else ("Replay",)
    if name not in known:
        text = " or ".join(map(repr, known))
        raise memory.refusal("name", name, f"{agent['algorithm']} learns from {text} here")
    batch = memory.count("batch_size", 32)
    is_soft = agent["algorithm"] in ("sac", CROSSQ)
    first = max(1000, batch) if is_soft else batch
    starts = algorithm.count("training_start_step", first, least=0)
    steps = algorithm.count("training_iter", num_envs)
    steps *= algorithm.count("training_batch_iter", 1)
    frequency = algorithm.count("training_frequency", 1)
    settings |= {
        "batch_size": batch,
        "gradient_steps": steps,
        "learning_starts": max(1, math.ceil(starts / num_envs)),
    }
    if agent["algorithm"] in ("sac", "td3", "ddpg", CROSSQ):
        settings["random_timesteps"] = settings["learning_starts"]
    agent["update_interval"] = max(1, round(frequency / num_envs))
    agent["replay"] = {
        "size": memory.count("max_size", 200_000, least=num_envs),
        "use_cer": memory.flag("use_cer"),
    }
    if name == "PrioritizedReplay":
        for key, default in (("alpha", 0.6), ("epsilon", 1e-4)):
            agent["replay"][key] = float(memory.number(key, default))
    if is_soft and (alpha := algorithm.number("alpha", None)) is not None:
        settings |= {"learn_entropy": False, "initial_entropy_value": float(alpha)}
    if agent["algorithm"] == "sac":
        settings.setdefault("initial_entropy_value", 1.0)
        for key, *usual in SAC_ALONE:
            algorithm.refuse(key, "skrl's SAC has no such setting: leave it out", allowed=(*usual,))


def _crossq(agent: dict[str, Any], algorithm: Part, net: Part, critic_net: Any) -> None:
    """Read CrossQ's additions to SAC: its critics, and the interval of the policy's steps."""
    settings = agent["settings"]
    for key in ("symlog", "spectral_norm", "fixed_alpha", "entropy_penalty_coef"):
        algorithm.refuse(key, "CrossQ here is the paper's: leave it out")
    agent["policy_delay"] = algorithm.count("policy_delay", 1)
    agent["log_alpha_max"] = float(algorithm.number("log_alpha_max", 2.0))
    settings.setdefault("initial_entropy_value", 1.0)
    rate = algorithm.number("alpha_lr", None)
    if rate is not None:
        rates = settings["learning_rate"]
        both = rates[:2] if isinstance(rates, list) else [rates, rates]
        settings["learning_rate"] = [*both, float(rate)]
    if critic_net is not None:
        read_critic_net(agent, net, critic_net)


def _on_policy(agent: dict[str, Any], algorithm: Part, memory: Part, num_envs: int) -> None:
    """Read rollouts and their use."""
    settings, kind = agent["settings"], agent["algorithm"]
    name = memory.take("name", "OnPolicyBatchReplay")
    if name not in ("OnPolicyBatchReplay", "OnPolicyReplay"):
        raise memory.refusal(
            "name",
            name,
            f"{kind} learns from rollouts, 'OnPolicyBatchReplay', or episodes, 'OnPolicyReplay'",
        )
    in_episodes = name == "OnPolicyReplay"
    if in_episodes and num_envs > 1:
        raise memory.refusal("name", name, "whole episodes are of one environment: env.num_envs 1")
    horizon = None if in_episodes else algorithm.count("time_horizon", None)
    frequency = algorithm.count("training_frequency", horizon or (1 if in_episodes else 32))
    lam, num_steps = algorithm.number("lam", None), algorithm.count("num_step_returns", None)
    if in_episodes:
        agent["num_episodes"] = frequency
        agent["num_step_returns"] = num_steps if lam is None and num_steps else 0
    else:
        if lam is None and num_steps is not None and kind == "a2c":
            frequency = num_steps  # as in SLM-Lab: n steps of returns are those of a rollout
        agent["rollouts"] = horizon or frequency
    settings |= {
        "gae_lambda": 1.0 if lam is None else float(lam),
        "time_limit_bootstrap": True,
    }
    _scheduled(agent, "entropy_loss_scale", algorithm, "entropy_coef_spec", num_envs)
    if kind == REINFORCE:
        settings["time_limit_bootstrap"] = False  # it has no values
        algorithm.take("center_return")  # no difference: returns are standardised
    elif kind == "ppo":
        batch = 1 if in_episodes else agent["rollouts"] * num_envs
        size = algorithm.count("minibatch_size", batch)
        settings |= {
            "learning_epochs": algorithm.count("training_epoch", 4),
            "mini_batches": max(1, batch // size),
            "value_loss_scale": float(algorithm.number("val_loss_coef", 1.0)),
            "value_clip": 0.0,
        }
        agent["clip_value_loss"] = algorithm.flag("clip_vloss")
        _scheduled(agent, "ratio_clip", algorithm, "clip_eps_spec", num_envs)
    else:
        agent["value_loss_scale"] = float(algorithm.number("val_loss_coef", 1.0))
    if algorithm.flag("normalize_v_targets"):
        settings["value_preprocessor"] = "RunningStandardScaler"


def _imitation(agent: dict[str, Any], algorithm: Part, memory: Part) -> None:
    """Read the settings of self-imitation."""
    memory.take("sil_replay_name")  # all are drawn uniformly
    agent["imitation"] = {
        "num_batches": algorithm.count("training_iter", 1),
        "steps_per_batch": algorithm.count("training_batch_iter", 1),
        "batch_size": memory.count("batch_size", 32),
        "size": memory.count("max_size", 10_000),
        "use_cer": memory.flag("use_cer"),
        "policy_loss_scale": float(algorithm.number("sil_policy_loss_coef", 1.0)),
        "value_loss_scale": float(algorithm.number("sil_val_loss_coef", 0.01)),
    }


def _sarsa(agent: dict[str, Any], algorithm: Part, memory: Part, num_envs: int) -> None:
    """Read rollouts, from which values are learned in order."""
    name = memory.take("name", "OnPolicyBatchReplay")
    if name != "OnPolicyBatchReplay":
        raise memory.refusal("name", name, "sarsa learns from rollouts, 'OnPolicyBatchReplay'")
    agent["rollouts"] = algorithm.count("training_frequency", 32, least=2)


def _scheduled(
    agent: dict[str, Any], setting: str, algorithm: Part, key: str, num_envs: int
) -> None:
    formula = _formula(algorithm, key, num_envs)
    if formula is not None:
        agent["schedules"][setting] = formula


def _formula(algorithm: Part, key: str, num_envs: int, *, above: bool = False) -> str | None:
    """Return a variable's schedule as a formula in steps of the environments; None if absent.

    With ``above``, it must stay above 0.

    SLM-Lab counts a session's frames, and a step of all environments has ``num_envs`` of them.
    """
    given = algorithm.part(key)
    if not given and not above:
        return None
    at = f"{key}.name"
    name, start = given.get("name", "no_decay"), given.get("start_val")
    if not isinstance(start, int | float):
        raise algorithm.refusal(f"{key}.start_val", start, "must be a number")
    end = given.get("end_val") if name == "linear_decay" else start
    if above and any(isinstance(one, int | float) and one <= 0 for one in (start, end)):
        raise algorithm.refusal(key, given, "a temperature must be above 0 from start to end")
    if name == "no_decay":
        return f"{float(start)}"
    if name != "linear_decay":
        raise algorithm.refusal(at, name, "must be 'linear_decay' or 'no_decay'")
    numbers: Any = (end, given.get("start_step", 0), given.get("end_step"))
    if not all(isinstance(number, int | float) for number in numbers) or numbers[2] <= numbers[1]:
        raise algorithm.refusal(key, given, "needs end_val, and an end_step after start_step")
    last_value, first, last = (float(number) for number in numbers)
    share = f"(timestep * {num_envs} - {first}) / {last - first}"
    return f"{float(start)} + {last_value - float(start)} * min(1, max(0, {share}))"
