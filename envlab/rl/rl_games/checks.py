"""What rl_games cannot do, or envlab not with it: refused in a sentence before anything is written.

rl_games itself would fail later, with a traceback or in silence.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
from collections.abc import Iterator
from typing import Any

from gymnasium import spaces

from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv
from envlab.errors import CheckpointError, ConfigurationError, did_you_mean
from envlab.rl.rl_games.cfg import SAC, RlGamesCfg

logger = logging.getLogger(__name__)

MODELS = {
    "a2c_continuous": ("continuous_a2c_logstd", "continuous_a2c_tanh"),
    "a2c_discrete": ("discrete_a2c", "multi_discrete_a2c"),
    SAC: ("soft_actor_critic",),
}
"""Models of each algorithm. ``continuous_a2c`` is missing: it breaks in rl_games 1.6.5."""

REFUSED: dict[str, tuple[Any, str]] = {
    "params.load_checkpoint": (False, "use --resume and --checkpoint"),
    "params.config.max_frames": (-1, "use --max_frames"),
    "params.config.population_based_training": (False, "use one of envlab's own trainers"),
    "params.config.self_play": (False, "rl_games' self-play needs an environment made for it"),
    "params.config.self_play_config": (
        None,
        "rl_games' self-play needs an environment made for it",
    ),
    "params.config.use_action_masks": (False, "envlab's environments have no action masks"),
    "params.config.epochs_between_resets": (0, "set env.episode_length_s, which ends episodes"),
    "params.config.normalize_rms_advantage": (
        False,
        "rl_games 1.6.5 fails with it; normalize_advantage is over the samples of all processes",
    ),
    "params.config.seq_len": (None, "rl_games ignores this old name of seq_length"),
}
"""Keys that would change what is trained and have no effect here: what they may be, what to do."""

_FAILURES = (
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What rl_games raises for a configuration that it cannot use."""


def check_supported(cfg: RlGamesCfg, env: VectorEnv, context: DistributedContext) -> None:
    """Refuse what cannot train.

    Raises:
        ConfigurationError: Naming the key, its value, what is expected and what to do.
    """
    for path, (allowed, advice) in REFUSED.items():
        value = _at(cfg, path)
        if value != allowed:
            raise ConfigurationError(
                f"agent.{path} is {value!r}, but only {allowed!r} is supported: {advice}."
            )
    check_model(cfg, env)
    _check_images(cfg, env)
    _check_processes(cfg, context)
    if cfg.is_sac:
        return
    _check_batches(cfg, env.num_envs)


@contextlib.contextmanager
def supported_configuration() -> Iterator[None]:
    """Turn what rl_games raises while it builds into a sentence, and what it prints into a log.

    Raises:
        ConfigurationError: If rl_games fails.
    """
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            yield
        except _FAILURES as error:
            raise ConfigurationError(
                f"rl_games refuses the agent's configuration ({type(error).__name__}: {error}). "
                "Correct it by an override agent.params.<key>=<value>."
            ) from error
    logger.debug("%s", printed.getvalue().strip())


@contextlib.contextmanager
def fitting_checkpoint() -> Iterator[None]:
    """Turn what torch raises for networks of other shapes into a sentence.

    Raises:
        CheckpointError: If loading fails.
    """
    try:
        yield
    except (RuntimeError, KeyError, ValueError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise CheckpointError(
            f"The checkpoint does not fit the configured networks ({reason}). Use the run's own "
            "configuration: leave out overrides of agent.params.network and of normalisers."
        ) from error


def check_model(cfg: RlGamesCfg, env: VectorEnv) -> None:
    """Refuse an algorithm or a model that does not fit the task's actions.

    Raises:
        ConfigurationError: Naming those that do.
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


def _check_images(cfg: RlGamesCfg, env: VectorEnv) -> None:
    """Refuse an image that a network without convolutions would get."""
    networks = {"obs": ("agent.params.network", cfg.params.network)}
    central = cfg.params.config.central_value_config
    if central is not None:
        path = "agent.params.config.central_value_config.network"
        networks["states"] = (path, central.network)
    for name, (path, network) in networks.items():
        groups = [
            group for group in cfg.params.env.obs_groups.get(name, []) if group in env.obs_buf
        ]
        images = [group for group in groups if env.obs_buf[group].dim() == 4]
        is_plain = network.get("name") == "actor_critic" and "cnn" not in network
        if images and (is_plain or cfg.is_sac):
            raise ConfigurationError(
                f"{path} has no convolutions, but {images[0]!r} is an image of "
                f"{list(env.obs_buf[images[0]].shape[1:])}. Add {path}.cnn, as "
                "Isaac-Cartpole-Depth-Camera-Direct-v0 has it in its agent file."
            )


def _fitting_models(space: spaces.Space) -> tuple[str, ...]:
    if isinstance(space, spaces.Discrete):
        return ("discrete_a2c",)
    if isinstance(space, spaces.MultiDiscrete):
        return ("multi_discrete_a2c",)
    return (*MODELS["a2c_continuous"], *MODELS[SAC])


def _check_processes(cfg: RlGamesCfg, context: DistributedContext) -> None:
    """Refuse what is not the same on all ranks."""
    if not context.is_distributed:
        return
    if cfg.is_sac:
        raise ConfigurationError(
            "agent.params.algo.name is 'sac', which rl_games trains on one process only: "
            f"{context.world_size} processes would train agents that know nothing of each other. "
            "Start one process, or use PPO, or SAC of skrl."
        )
    if cfg.params.config.torch_compile:
        raise ConfigurationError(
            f"agent.params.config.torch_compile is {cfg.params.config.torch_compile!r}, but "
            "compiled networks are supported on one process only. Leave it out."
        )
    central = cfg.params.config.central_value_config
    networks = {"agent.params.network": cfg.params.network}
    if central is not None:
        networks["agent.params.config.central_value_config.network"] = central.network
    for path, network in networks.items():
        if network.get("normalization") == "batch_norm":
            raise ConfigurationError(
                f"{path}.normalization is 'batch_norm', whose statistics rl_games keeps on each "
                "process for itself. Use layer_norm."
            )


def _check_batches(cfg: RlGamesCfg, num_envs: int) -> None:
    """Refuse numbers that do not divide an iteration's samples."""
    config = cfg.params.config
    for name in ("mini_epochs", "seq_length"):
        if getattr(config, name) <= 0:
            raise ConfigurationError(
                f"agent.params.config.{name} is {getattr(config, name)}, but must be greater than "
                "0."
            )
    is_recurrent, central = "rnn" in cfg.params.network, config.central_value_config
    if is_recurrent and config.horizon_length % config.seq_length:
        raise ConfigurationError(
            f"agent.params.config.seq_length is {config.seq_length}, but must divide "
            f"horizon_length, which is {config.horizon_length}. Use "
            f"{_largest_divisor(config.horizon_length, config.seq_length)}."
        )
    batch = config.horizon_length * num_envs
    if batch % config.seq_length:
        raise ConfigurationError(
            f"agent.params.config.seq_length is {config.seq_length}, but must divide the {batch} "
            f"samples per process and iteration (horizon_length {config.horizon_length} x "
            f"{num_envs} environments), also without a recurrent network. Use "
            f"{_largest_divisor(batch, config.seq_length)}."
        )
    _check_minibatch("agent.params.config", config, config, num_envs, is_recurrent)
    if central is None:
        return
    path = "agent.params.config.central_value_config"
    if "rnn" in central.network and not is_recurrent:
        raise ConfigurationError(
            f"{path}.network is recurrent, but agent.params.network is not, and rl_games resets "
            "and stores the memory of both or none. Make both recurrent, or neither."
        )
    _check_minibatch(path, central, config, num_envs, "rnn" in central.network)


def _check_minibatch(path: str, group: Any, config: Any, num_envs: int, is_recurrent: bool) -> None:
    batch = config.horizon_length * num_envs
    for name, unit in (("minibatch_size", 1), ("minibatch_size_per_env", num_envs)):
        value = getattr(group, name)
        if value is None:
            continue
        size = value * unit
        step = config.seq_length * unit if is_recurrent and unit == 1 else unit
        if size > 0 and batch % size == 0 and size % step == 0:
            return
        raise ConfigurationError(
            f"{path}.{name} is {value}, but must divide the {batch} samples per process and "
            f"iteration (horizon_length {config.horizon_length} x {num_envs} environments"
            + (f"; a whole number of sequences of {config.seq_length} steps" * is_recurrent)
            + f"). Use {path}.{name}={_largest_divisor(batch, size, step) // unit}."
        )


def _largest_divisor(total: int, bound: int, step: int = 1) -> int:
    """Return the largest divisor of ``total``, a multiple of ``step``, up to ``bound`` if any."""
    divisors = [value for value in range(step, total + 1, step) if total % value == 0]
    fitting = [value for value in divisors if value <= bound]
    return fitting[-1] if fitting else divisors[0]


def _at(cfg: Any, path: str) -> Any:
    for name in path.split("."):
        cfg = getattr(cfg, name)
    return cfg
