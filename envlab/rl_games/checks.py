"""Refusal of what rl_games, or envlab with it, cannot do, before anything is written.

rl_games itself would fail later, with a traceback or silently.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from gymnasium import spaces

from envlab.config.translator import Refuse, Rows, Translator
from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv
from envlab.envs.action_use import ActionBound, clip_bound
from envlab.envs.checks import refuse_dictionaries
from envlab.errors import CheckpointError, ConfigurationError, did_you_mean
from envlab.rl_games._networks import MULTI_INPUT
from envlab.rl_games.cfg import SAC, ConfigCfg, RlGamesCfg

logger = logging.getLogger(__name__)

MODELS = {
    "a2c_continuous": ("continuous_a2c_logstd", "continuous_a2c_tanh"),
    "a2c_discrete": ("discrete_a2c", "multi_discrete_a2c"),
    SAC: ("soft_actor_critic",),
}
"""Models of each algorithm. ``continuous_a2c`` is missing: it breaks in rl_games 1.6.5."""

_CONFIG = "agent.params.config"
_CENTRAL = f"{_CONFIG}.central_value_config"
_NO_SELF_PLAY = Refuse("rl_games' self-play needs an environment made for it")
REFUSED: Rows = {
    "load_checkpoint": Refuse("--resume and --checkpoint say what is loaded"),
    "config.max_frames": Refuse("--max_frames ends a run", unless=(-1,)),
    "config.population_based_training": Refuse("a flag of train makes populations (--help)"),
    "config.self_play": _NO_SELF_PLAY,
    "config.self_play_config": _NO_SELF_PLAY,
    "config.use_action_masks": Refuse("envlab's environments have no action masks"),
    "config.epochs_between_resets": Refuse("env.episode_length_s ends episodes"),
    "config.normalize_rms_advantage": Refuse(
        "rl_games 1.6.5 fails with it; normalize_advantage is over the samples of all processes"
    ),
    "config.seq_len": Refuse("rl_games ignores this old name of seq_length"),
}
"""Keys of ``agent.params`` that would change the training but have no effect here."""


def check_supported(cfg: RlGamesCfg, env: BatchedEnv, context: DistributedContext) -> None:
    """Refuse a configuration that cannot train.

    Raises:
        ConfigurationError: Naming the key, its value, what is expected and what to do.
    """
    values = {"agent": {"params": asdict(cfg.params)}}
    file = Translator(values, peer="rl_games", file="the configuration", cure="Leave it out.")
    file.part("agent.params").translated(REFUSED)
    check_model(cfg, env)
    _check_images(cfg, env)
    _check_processes(cfg, context)
    if cfg.is_sac:
        _check_sac(cfg.params.config, env.num_envs)
    else:
        _check_batches(cfg, env.num_envs)


@contextlib.contextmanager
def supported_configuration() -> Iterator[None]:
    """Turn exceptions of rl_games during construction into a sentence, and its prints into a log.

    Raises:
        ConfigurationError: If rl_games fails.
    """
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            yield
        except Exception as error:  # its constructors may raise anything
            raise ConfigurationError(
                f"rl_games refuses the agent's configuration ({type(error).__name__}: {error}). "
                "Correct it by an override agent.params.<key>=<value>."
            ) from error
    logger.debug("%s", printed.getvalue().strip())


@contextlib.contextmanager
def fitting_checkpoint() -> Iterator[None]:
    """Turn torch's exceptions for networks of other shapes into a sentence.

    Raises:
        CheckpointError: If loading fails.
    """
    try:
        yield
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise CheckpointError(
            f"The checkpoint does not fit the configured networks ({reason}). Use the run's own "
            "configuration: leave out overrides of agent.params.network and of normalisers."
        ) from error


def check_model(cfg: RlGamesCfg, env: BatchedEnv) -> None:
    """Refuse an algorithm or a model that does not fit the task's actions.

    Raises:
        ConfigurationError: Naming those that fit.
    """
    algorithm, model = cfg.params.algo.name, cfg.params.model.name
    if algorithm not in MODELS:
        raise ConfigurationError(
            f"agent.params.algo.name is {algorithm!r}, but must be one of {', '.join(MODELS)}."
            f"{did_you_mean(algorithm, MODELS)}"
        )
    space = env.single_action_space
    fitting = _fitting_models(space)
    if model not in MODELS[algorithm] or model not in fitting:
        algorithms = [name for name, models in MODELS.items() if set(models) & set(fitting)]
        raise ConfigurationError(
            f"agent.params.algo.name is {algorithm!r} and agent.params.model.name is {model!r}, "
            f"but the task's actions are {space}. Choose {' or '.join(algorithms)} with the model "
            f"{' or '.join(fitting)}, and agent.params.network.space to match."
        )
    clip = cfg.params.env.clip_actions
    is_scaled = cfg.is_sac or cfg.params.config.clip_actions
    if isinstance(space, spaces.Box) and is_scaled and not math.isfinite(clip):
        raise ConfigurationError(
            f"agent.params.env.clip_actions is {clip}, but actions in [-1, 1] are scaled to that "
            "bound. Set it, as in agent.params.env.clip_actions=1.0"
            + ("." if cfg.is_sac else ", or set agent.params.config.clip_actions=false.")
        )


def action_bound(cfg: RlGamesCfg, env: BatchedEnv) -> ActionBound:
    """Return the bound that actions are clipped or scaled to; infinite by default."""
    return clip_bound(cfg.params.env.clip_actions, "agent.params.env.clip_actions")


def check_vectors(space: spaces.Space) -> None:
    """Refuse observations that are not one vector, the only kind that SAC supports.

    Raises:
        ConfigurationError: With their space.
    """
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise ConfigurationError(
            f"The policy observes {space}, but rl_games' SAC takes one vector only. Use PPO, or "
            "set agent.params.env.concate_obs_groups=true."
        )


def _fitting_models(space: spaces.Space) -> tuple[str, ...]:
    if isinstance(space, spaces.Discrete):
        return ("discrete_a2c",)
    if isinstance(space, spaces.MultiDiscrete):
        return ("multi_discrete_a2c",)
    return (*MODELS["a2c_continuous"], *MODELS[SAC])


def _networks(cfg: RlGamesCfg) -> list[tuple[str, str, dict[str, Any]]]:
    """Return each network's observations by the library's name, its path and its configuration."""
    networks = [("obs", "agent.params.network", cfg.params.network)]
    central = cfg.params.config.central_value_config
    if central is not None:
        networks.append(("states", f"{_CENTRAL}.network", central.network))
    return networks


def _check_images(cfg: RlGamesCfg, env: BatchedEnv) -> None:
    """Refuse networks that do not support the shapes of their observations."""
    for name, path, network in _networks(cfg):
        groups = cfg.params.env.obs_groups.get(name, [])
        refuse_dictionaries(env.obs_buf, groups, "rl_games")
        shapes = {
            group: tuple(env.obs_buf[group].shape[1:]) for group in groups if group in env.obs_buf
        }
        images = {group: shape for group, shape in shapes.items() if len(shape) == 3}
        is_plain = network.get("name") == "actor_critic" and "cnn" not in network
        if images and (is_plain or cfg.is_sac):
            group, shape = next(iter(images.items()))
            raise ConfigurationError(
                f"{path} has no convolutions, but {group!r} is an image of "
                f"{list(shape)}. Add {path}.cnn, as "
                "Isaac-Cartpole-Depth-Camera-Direct-v0 has it in its agent file."
            )
        if len({shape[:-1] for shape in shapes.values()}) > 1 and cfg.params.env.concate_obs_groups:
            raise ConfigurationError(
                "agent.params.env.concate_obs_groups is true, but images and vectors cannot be "
                f"joined: {_told(shapes)}. Set it to false, and use {MULTI_INPUT} as "
                "Nav-PointNav-Depth-v0 does in its agent file."
            )
        is_dict = len(shapes) > 1 and not cfg.params.env.concate_obs_groups
        if network.get("name") == MULTI_INPUT:
            _check_multi_input(path, network, shapes, is_dict=is_dict)
        elif is_dict and network.get("name") == "actor_critic":
            raise ConfigurationError(
                f"{path}.name is 'actor_critic', which takes one vector or image, but it would "
                f"get {_told(shapes)}. Use {MULTI_INPUT}, or join vectors by "
                "agent.params.env.concate_obs_groups=true."
            )


def _check_multi_input(
    path: str, network: dict[str, Any], shapes: dict[str, tuple[int, ...]], *, is_dict: bool
) -> None:
    """Refuse settings that the network for images and vectors does not support."""
    sizes = {shape[:2] for shape in shapes.values() if len(shape) == 3}
    if len(sizes) != 1 or "cnn" not in network or not is_dict:
        raise ConfigurationError(
            f"{path}.name is {MULTI_INPUT!r}, which takes several groups of observations, with "
            f"images of one size among them, and needs {path}.cnn; but it would get "
            f"{_told(shapes)}. Use actor_critic for one vector or image."
        )


def _told(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{group} {list(shape)}" for group, shape in shapes.items())


def _check_processes(cfg: RlGamesCfg, context: DistributedContext) -> None:
    """Refuse settings that would differ between ranks."""
    if not context.is_distributed:
        return
    if cfg.is_sac:
        raise ConfigurationError(
            "agent.params.algo.name is 'sac', which rl_games trains on one process only: "
            f"{context.world_size} processes would train separate agents. Start one process, or "
            "use PPO, or SAC of skrl."
        )
    if cfg.params.config.torch_compile:
        raise ConfigurationError(
            f"{_CONFIG}.torch_compile is {cfg.params.config.torch_compile!r}, but compiled "
            "networks are supported on one process only. Leave it out."
        )
    for _, path, network in _networks(cfg):
        if network.get("normalization") == "batch_norm":
            raise ConfigurationError(
                f"{path}.normalization is 'batch_norm', whose statistics rl_games keeps on each "
                "process separately. Use layer_norm."
            )


def _check_sac(config: ConfigCfg, num_envs: int) -> None:
    """Refuse settings that SAC does not support."""
    if config.replay_buffer_size < num_envs:
        raise ConfigurationError(
            f"{_CONFIG}.replay_buffer_size is {config.replay_buffer_size}, but must hold a step "
            f"of all {num_envs} environments."
        )
    if config.torch_compile:
        raise ConfigurationError(
            f"{_CONFIG}.torch_compile is {config.torch_compile!r}, but SAC is not compiled. Leave "
            "it out."
        )


def _check_batches(cfg: RlGamesCfg, num_envs: int) -> None:
    """Refuse numbers that do not divide an iteration's samples."""
    config = cfg.params.config
    horizon, length, central = config.horizon_length, config.seq_length, config.central_value_config
    batch, is_recurrent = horizon * num_envs, "rnn" in cfg.params.network
    samples = (
        f"the {batch} samples per process and iteration (horizon_length {horizon} x {num_envs} "
        "environments"
    )
    path = f"{_CONFIG}.seq_length"
    if is_recurrent:
        _check_divides(path, length, horizon, f"horizon_length, which is {horizon}")
    _check_divides(path, length, batch, f"{samples}), also without a recurrent network")
    groups: list[tuple[str, Any, bool]] = [(_CONFIG, config, is_recurrent)]
    if central is not None:
        groups.append((_CENTRAL, central, "rnn" in central.network))
        if "rnn" in central.network and not is_recurrent:
            raise ConfigurationError(
                f"{_CENTRAL}.network is recurrent, but agent.params.network is not, and rl_games "
                "resets and stores the memory of both or none. Make both recurrent, or neither."
            )
    for path, group, has_memory in groups:
        sequences = f"; a whole number of sequences of {length} steps" if has_memory else ""
        what = f"{samples}{sequences})"
        if group.minibatch_size is not None:
            step = length if has_memory else 1
            _check_divides(f"{path}.minibatch_size", group.minibatch_size, batch, what, step=step)
        elif group.minibatch_size_per_env is not None:
            path, size = f"{path}.minibatch_size_per_env", group.minibatch_size_per_env
            _check_divides(path, size, batch, what, unit=num_envs)


def _check_divides(
    path: str, value: int, total: int, what: str, *, unit: int = 1, step: int = 1
) -> None:
    """Refuse a number of units that does not divide a total, or is not a multiple of ``step``."""
    if value > 0 and total % (value * unit) == 0 and value % step == 0:
        return
    numbers = range(step, total // unit + 1, step)
    divisors = [number for number in numbers if total % (number * unit) == 0]
    nearest = max((number for number in divisors if number <= value), default=divisors[0])
    raise ConfigurationError(f"{path} is {value}, but must divide {what}. Use {path}={nearest}.")
