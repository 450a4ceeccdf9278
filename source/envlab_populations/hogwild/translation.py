"""A spec in envlab's terms: the task, the number of environments, and the learning settings.

Nothing of a spec is ignored silently: a key without effect here is in :attr:`Plan.report`,
and one that a user would miss is refused. A key that means the same here is a row of a table.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envlab.config import from_dict
from envlab.config.translator import NoEffect, Refuse, Rows, Take, Translator
from envlab.errors import ConfigurationError, did_you_mean
from envlab.registry import get_task, list_tasks
from envlab.skrl.library import OFF_POLICY
from envlab_populations.hogwild import atari
from envlab_populations.hogwild.cfg import CROSSQ, RANDOM, REINFORCE, SARSA, HogwildCfg
from envlab_populations.hogwild.net_part import read_critic_net, read_net
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


def _formula(file: Translator, key: str, default: Any = None, *, above: bool = False) -> str | None:
    """Return a variable's schedule as a formula in steps of the environments; None if absent.

    With ``above``, it must stay above 0.

    SLM-Lab counts a session's frames, and a step of all environments has ``num_envs`` of them.
    """
    given, part = file.mapping(key), file.part(key)
    if not given and not above:
        return None
    kinds = {"no_decay": False, "linear_decay": True}
    decays = part.choice("name", "no_decay", known=kinds)
    start = part.number("start_val")
    if start is None:
        raise part.refusal("start_val", None, "must be a number")
    end = part.number("end_val") if decays else start
    if above and 0 in (start, end):
        raise file.refusal(key, given, "a temperature must be above 0 from start to end")
    if not decays:
        return f"{start}"
    first, last = part.number("start_step", 0), part.number("end_step")
    if end is None or last is None or last <= first:
        raise file.refusal(key, given, "needs end_val, and an end_step after start_step")
    share = f"(timestep * {file.count('env.num_envs', 1)} - {first}) / {last - first}"
    return f"{start} + {end - start} * min(1, max(0, {share}))"


def _scaler(file: Translator, key: str, default: Any) -> str | None:
    return "RunningStandardScaler" if file.flag(key) else None


_AGENT, _MEMORY = "agent.algorithm", "agent.memory"
_NOT_EVALUATED = NoEffect("sessions are measured as they train")
GENERAL: Rows = {
    f"{_AGENT}.gamma": Take("settings.discount_factor", Translator.number),
    f"{_AGENT}.action_pdtype": NoEffect("the task's actions decide it"),
    f"{_AGENT}.action_policy": NoEffect("the algorithm decides how it explores"),
    f"{_AGENT}.explore_var_spec": NoEffect("the algorithm decides how it explores"),
    f"{_AGENT}.policy_loss_coef": NoEffect("the policy's loss has the weight 1"),
    "agent.net.out_layer_activation": NoEffect("the last layer is linear"),
    "env.reward_clip": NoEffect("the setting is clip_reward"),
    "env.frame_op_len": NoEffect("there is no frame_op"),
    "env.image_downsize": NoEffect("images are of the environment's size"),
    "meta.eval_frequency": _NOT_EVALUATED,
    "meta.rigorous_eval": _NOT_EVALUATED,
    "meta.num_eval": _NOT_EVALUATED,
    "meta.param_spec_process": NoEffect("specs of spec_params train one after the other"),
    "meta.resume": NoEffect("the mode train@latest resumes"),
    "meta.search": NoEffect("the mode search reads the part search"),
    "meta.cuda_offset": NoEffect("--device chooses the GPU"),
    "meta.random_seed": Take("seed", Translator.whole, 0),
}
"""What becomes of a spec's keys; a new one is a row here, or in the table of its algorithms. What
depends on several keys, or on the number of environments, is read by a function below."""
REPLAY: Rows = {
    f"{_MEMORY}.batch_size": Take("settings.batch_size", Translator.count, 32),
    f"{_MEMORY}.use_cer": Take("replay.use_cer", Translator.flag),
}
PRIORITIES: Rows = {
    f"{_MEMORY}.alpha": Take("replay.alpha", Translator.number, 0.6),
    f"{_MEMORY}.epsilon": Take("replay.epsilon", Translator.number, 1e-4),
}
_SKRLS_SAC = "skrl's SAC has no such setting: leave it out"
SAC: Rows = {
    f"{_AGENT}.policy_delay": Refuse(_SKRLS_SAC, unless=(1,)),
    f"{_AGENT}.target_entropy": Refuse(_SKRLS_SAC, unless=("auto",)),
    f"{_AGENT}.alpha_anneal_frames": Refuse(_SKRLS_SAC, unless=(0,)),
    **{
        f"{_AGENT}.{name}": Refuse(_SKRLS_SAC)
        for name in ("alpha_lr", "fixed_alpha", "symlog", "spectral_norm")
    },
}
"""Settings of SLM-Lab's SAC that would change the result."""
CROSSQS: Rows = {
    **{
        f"{_AGENT}.{name}": Refuse("CrossQ here is the paper's: leave it out")
        for name in ("symlog", "spectral_norm", "fixed_alpha", "entropy_penalty_coef")
    },
    f"{_AGENT}.policy_delay": Take("policy_delay", Translator.count, 1),
    f"{_AGENT}.log_alpha_max": Take("log_alpha_max", Translator.number, 2.0),
}
ON_POLICY: Rows = {
    f"{_AGENT}.entropy_coef_spec": Take("schedules.entropy_loss_scale", _formula),
    f"{_AGENT}.lam": Take("settings.gae_lambda", Translator.number, 1.0),
    f"{_AGENT}.normalize_v_targets": Take("settings.value_preprocessor", _scaler),
}
PPO: Rows = {
    f"{_AGENT}.clip_eps_spec": Take("schedules.ratio_clip", _formula),
    f"{_AGENT}.clip_vloss": Take("clip_value_loss", Translator.flag),
    f"{_AGENT}.training_epoch": Take("settings.learning_epochs", Translator.count, 4),
    f"{_AGENT}.val_loss_coef": Take("settings.value_loss_scale", Translator.number, 1.0),
}
A2C: Rows = {f"{_AGENT}.val_loss_coef": Take("value_loss_scale", Translator.number, 1.0)}
IMITATION: Rows = {
    f"{_AGENT}.training_iter": Take("imitation.num_batches", Translator.count, 1),
    f"{_AGENT}.training_batch_iter": Take("imitation.steps_per_batch", Translator.count, 1),
    f"{_MEMORY}.batch_size": Take("imitation.batch_size", Translator.count, 32),
    f"{_MEMORY}.max_size": Take("imitation.size", Translator.count, 10_000),
    f"{_MEMORY}.use_cer": Take("imitation.use_cer", Translator.flag),
    f"{_AGENT}.sil_policy_loss_coef": Take("imitation.policy_loss_scale", Translator.number, 1.0),
    f"{_AGENT}.sil_val_loss_coef": Take("imitation.value_loss_scale", Translator.number, 0.01),
}
_NO_TARGETS = Refuse("VanillaDQN has no target network: leave it out, or train DQN")
VANILLA: Rows = {
    f"agent.net.{name}": _NO_TARGETS for name in ("update_type", "update_frequency", "polyak_coef")
}
GAMES: Rows = {
    "env.life_loss_info": Take("kwargs.life_loss_info", Translator.flag),
    "env.repeat_action_probability": Take("kwargs.repeat_action_probability", Translator.number),
}


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
    report: tuple[str, ...]
    """A line for each key of the spec without effect here."""


def make_plan(spec: Spec, *, dev: bool = False) -> Plan:
    """Return a spec in envlab's terms.

    Args:
        spec: The spec.
        dev: Whether one short session is wanted.

    Raises:
        EnvlabError: Naming the key that cannot be honoured and what to do.
    """
    spec = in_version_4(spec)
    file = spec.file()
    env, meta = file.part("env"), file.part("meta")
    task, env_values, num_envs = _environment(file)
    max_frame = env.count("max_frame")
    if max_frame is None:
        raise ConfigurationError("env.max_frame is absent: say how many frames to train for.")
    log_frequency = meta.count("log_frequency", LOG_FREQUENCY)
    sessions = meta.count("max_session", 1)
    if dev:
        sessions = 1
    for key in ("max_trial", "search_resources", "search_scheduler"):
        meta.take(key)  # for the mode search
    kinds = {None: "false", False: "false", "false": "false", "shared": "shared"}
    distributed = meta.choice("distributed", known=kinds | {"synced": "synced"})
    agent = _agent(file, num_envs)
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
    }
    _rewards_and_observations(agent, env, is_atari=atari.__name__ in task)
    _sequences(agent, env, env_values.get("num_frames", 1))
    wants_gpu = file.take("agent.net.gpu") is True
    file.refuse_unknown(spec.settings)
    return Plan(
        spec=spec,
        task=task,
        env=env_values,
        agent=from_dict(HogwildCfg, agent, "agent").resolved(),
        max_frame=max_frame,
        log_frequency=log_frequency,
        wants_gpu=wants_gpu,
        is_dev=dev,
        report=tuple(file.lines()),
    )


def _environment(file: Translator) -> tuple[str, dict[str, Any], int]:
    """Return the task's id, values over its configuration, and the number of environments."""
    env = file.part("env")
    name, num_envs = env.take("name"), env.count("num_envs", 1)
    if not isinstance(name, str):
        raise env.refusal("name", name, "must be the id of a task, as 'Humanoid-v5'")
    if name.startswith("playground/"):
        why = "MuJoCo Playground's environments run on JAX, and not here: name one of envlab list"
        raise env.refusal("name", name, why)
    own = {task.id for task in list_tasks()}
    is_own = name in own or f"{name}-v0" in own or name.startswith("Isaac")
    is_atari = name.startswith(atari.GAMES)
    given = atari.task_of(name) if is_atari else name if ":" in name or is_own else f"gym:{name}"
    task = get_task(given).id
    values: dict[str, Any] = {"scene": {"num_envs": num_envs}}
    if is_atari:
        file.lay(values, GAMES)
    limit = env.count("max_t")
    if limit is not None:
        if not task.startswith("gym:"):
            raise env.refusal("max_t", limit, "the task's own configuration has its time limit")
        values["max_episode_steps"] = limit
    values |= _frames(env, task, is_atari=is_atari)
    return task, values, num_envs


def _frames(env: Translator, task: str, *, is_atari: bool) -> dict[str, Any]:
    """Return the settings of observations that join those of the last steps."""
    operation = env.choice("frame_op", known={None: "", "concat": "concat", "stack": "stack"})
    if not operation:
        return {}
    count = env.count("frame_op_len", atari.STACK if is_atari else 1)
    if is_atari:  # its wrappers join them already
        if count != atari.STACK:
            raise env.refusal("frame_op_len", count, f"games have {atari.STACK} frames here")
        return {}
    if not task.startswith("gym:"):
        raise env.refusal("frame_op", operation, "the task's own configuration has its history")
    padding = env.choice("frame_padding", "reset", known=("reset", "zero"))
    return {"num_frames": count, "frame_padding": padding}


def _sequences(agent: dict[str, Any], env: Translator, num_frames: int) -> None:
    """Let recurrent networks see the joined steps one after the other."""
    net = agent.get("net", {})
    if num_frames == 1 or not net.get("recurrent"):
        return
    if net["sequence_length"] != num_frames:
        why = f"agent.net.seq_len is {net['sequence_length']}: a recurrent network sees each frame"
        raise env.refusal("frame_op_len", num_frames, why)
    net["sees_steps"] = True


def _rewards_and_observations(agent: dict[str, Any], env: Translator, *, is_atari: bool) -> None:
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
        scale = env.number("reward_scale", least=-math.inf)
        if normalises:
            raise env.refusal("reward_scale", scale, "normalize_reward undoes it: set one to null")
        settings["rewards_shaper_scale"] = scale
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
        settings["observation_preprocessor_kwargs"] = {"clip_threshold": clip}
    elif clip is not None:
        raise env.refusal("clip_obs", clip, "observations are clipped with normalize_obs only")


def _agent(file: Translator, num_envs: int) -> dict[str, Any]:
    """Return an agent's configuration."""
    algorithm = file.part(_AGENT)
    file.take("agent.name")  # a label
    name = algorithm.take("name")
    kind = NAMES.get(str(name)) or str(name).lower()
    if name == "HydraDQN":
        why = "SLM-Lab has had none since version 4.3 at the latest: use DoubleDQN"
        raise algorithm.refusal("name", name, why)
    if kind not in NAMES.values():
        known = f"skrl has no counterpart; use one of {', '.join(NAMES)}."
        raise algorithm.refusal("name", name, f"{known}{did_you_mean(str(name), NAMES)}")
    agent: dict[str, Any] = {"algorithm": kind, "settings": {}, "schedules": {}}
    file.lay(agent, GENERAL)
    if kind in (*OFF_POLICY, CROSSQ):
        _off_policy(agent, file, num_envs)
    elif kind == SARSA:
        _memory(file, "OnPolicyBatchReplay")
        agent["rollouts"] = algorithm.whole("training_frequency", 32, least=2)
    elif kind != RANDOM:
        _on_policy(agent, file, num_envs)
    if kind in ("dqn", "ddqn", SARSA):
        _exploration(agent, file)
    if name in ("SIL", "PPOSIL"):
        file.take(f"{_MEMORY}.sil_replay_name")  # all are drawn uniformly
        file.lay(agent, IMITATION)
    if name == "VanillaDQN":
        file.lay(agent, VANILLA)
    if kind != RANDOM:
        read_net(agent, file.part("agent.net"), num_envs)
    critic_net = file.take("agent.critic_net")
    if kind == CROSSQ:
        file.lay(agent, CROSSQS)
        agent["settings"].setdefault("initial_entropy_value", 1.0)
        rate = algorithm.number("alpha_lr")
        if rate is not None:
            rates = agent["settings"]["learning_rate"]
            both = rates[:2] if isinstance(rates, list) else [rates, rates]
            agent["settings"]["learning_rate"] = [*both, rate]
        if critic_net is not None:
            read_critic_net(agent, file)
    elif critic_net is not None:
        why = f"{kind} has one kind of network: leave it out"
        raise file.refusal("agent.critic_net", critic_net, why)
    if name == "VanillaDQN":  # targets are from the network itself, before the last step
        agent["settings"] |= {"target_update_interval": 1, "polyak": 1.0}
    return agent


def _memory(file: Translator, *known: str) -> Any:
    """Return the kind of memory: one of those that the algorithm learns from."""
    return file.part(_MEMORY).choice("name", known[0], known=known)


def _exploration(agent: dict[str, Any], file: Translator) -> None:
    """Read how DQN explores; ``Argmax`` of SLM-Lab's Boltzmann always takes the best action."""
    algorithm = file.part(_AGENT)
    policies = ("epsilon_greedy", "boltzmann")
    policy = algorithm.choice("action_policy", policies[0], known=policies)
    if policy == "boltzmann":  # the default of choices is Categorical
        kinds = {"Argmax": True, "Categorical": False, "default": False}
        if algorithm.choice("action_pdtype", "Argmax", known=kinds):
            logger.warning(
                "%s.action_policy is 'boltzmann' and action_pdtype 'Argmax', which always takes "
                "the best action, as in SLM-Lab. 'Categorical' explores.",
                algorithm.path,
            )
            algorithm.take("explore_var_spec")
            agent["settings"]["exploration_scheduler"] = "0.0"
            return
    agent["action_policy"] = policy
    formula = _formula(file, f"{_AGENT}.explore_var_spec", above=policy == "boltzmann")
    agent["settings"]["exploration_scheduler"] = formula or "0.05"


def _off_policy(agent: dict[str, Any], file: Translator, num_envs: int) -> None:
    """Read the replay memory, and the schedule of learning from it.

    SLM-Lab learns every ``training_frequency`` frames, though at most once a step of all
    environments, and then ``training_iter`` times, by default once for each environment.
    """
    algorithm, settings, kind = file.part(_AGENT), agent["settings"], agent["algorithm"]
    has_priorities = kind in ("dqn", "ddqn", "sac")
    name = _memory(file, "Replay", *(("PrioritizedReplay",) if has_priorities else ()))
    file.lay(agent, REPLAY, *((PRIORITIES,) if name == "PrioritizedReplay" else ()))
    agent["replay"]["size"] = file.whole(f"{_MEMORY}.max_size", 200_000, least=num_envs)
    is_soft = kind in ("sac", CROSSQ)
    batch = settings["batch_size"]
    starts = algorithm.whole("training_start_step", max(1000, batch) if is_soft else batch)
    steps = algorithm.count("training_iter", num_envs) * algorithm.count("training_batch_iter", 1)
    settings |= {"gradient_steps": steps, "learning_starts": max(1, math.ceil(starts / num_envs))}
    if kind in ("sac", "td3", "ddpg", CROSSQ):
        settings["random_timesteps"] = settings["learning_starts"]
    agent["update_interval"] = max(1, round(algorithm.count("training_frequency", 1) / num_envs))
    if is_soft and (alpha := algorithm.number("alpha")) is not None:
        settings |= {"learn_entropy": False, "initial_entropy_value": alpha}
    if kind == "sac":
        settings.setdefault("initial_entropy_value", 1.0)
        file.lay(agent, SAC)


def _on_policy(agent: dict[str, Any], file: Translator, num_envs: int) -> None:
    """Read rollouts and their use."""
    algorithm, settings, kind = file.part(_AGENT), agent["settings"], agent["algorithm"]
    name = _memory(file, "OnPolicyBatchReplay", "OnPolicyReplay")
    in_episodes = name == "OnPolicyReplay"
    if in_episodes and num_envs > 1:
        why = "whole episodes are of one environment: env.num_envs 1"
        raise file.refusal(f"{_MEMORY}.name", name, why)
    horizon = None if in_episodes else algorithm.count("time_horizon")
    frequency = algorithm.count("training_frequency", horizon or (1 if in_episodes else 32))
    num_steps = algorithm.count("num_step_returns")
    has_lam = algorithm.take("lam") is not None
    if in_episodes:
        agent["num_episodes"] = frequency
        agent["num_step_returns"] = 0 if has_lam else num_steps or 0
    else:
        if not has_lam and num_steps is not None and kind == "a2c":
            frequency = num_steps  # as in SLM-Lab: n steps of returns are those of a rollout
        agent["rollouts"] = horizon or frequency
    settings["time_limit_bootstrap"] = kind != REINFORCE  # which has no values
    file.lay(agent, ON_POLICY)
    if kind == REINFORCE:
        algorithm.take("center_return")  # no difference: returns are standardised
    elif kind == "ppo":
        batch = 1 if in_episodes else agent["rollouts"] * num_envs
        size = algorithm.count("minibatch_size", batch)
        settings |= {"mini_batches": max(1, batch // size), "value_clip": 0.0}
        file.lay(agent, PPO)
    else:
        file.lay(agent, A2C)
