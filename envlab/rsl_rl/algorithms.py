"""rsl_rl's algorithms, built as in its runners, for the ranks of a run.

``agent.algorithm.symmetry_cfg`` adds mirror images: Mittal et al., "Symmetry Considerations for
Learning Task Symmetric Robot Policies" (2024).
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import torch
from rsl_rl.modules import EmpiricalNormalization
from rsl_rl.modules.distribution import GaussianDistribution
from rsl_rl.utils import resolve_callable
from tensordict import TensorDict
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.envs.mirror import Mirror
from envlab.envs.wrappers.rsl_rl import RslRlVecEnvWrapper
from envlab.errors import ConfigurationError
from envlab.precision import compute_in, settle_precision
from envlab.rsl_rl._joined_update import seeing
from envlab.rsl_rl.cfg import DistillationCfg, RslRlCfg, RunnerCfg
from envlab.rsl_rl.distillation import DistributedDistillation
from envlab.rsl_rl.ppo import DistributedPPO
from envlab.rsl_rl.recorded_update import RecordedUpdate, obstacle
from envlab.sim.recording import records_updates

logger = logging.getLogger(__name__)

FUNCTION = "data_augmentation_func"
TOLERANCE = 1e-5
"""Tolerance of values about 1 that are mirrored twice."""

Augment = Callable[..., tuple[TensorDict | None, torch.Tensor | None]]


def symmetry_function(env: RslRlVecEnvWrapper, cfg: dict[str, Any]) -> Augment:
    """Return the function that a symmetry setting names, by default the robot's own mirror.

    Raises:
        ConfigurationError: If the robot has no mirror, or the function does not square to the
            identity.
    """
    if cfg.get(FUNCTION) is None:
        return _left_right(Mirror(env.unwrapped))
    function: Augment = resolve_callable(cfg[FUNCTION])
    _check_images(function, cfg[FUNCTION], env)
    return function


def _left_right(mirror: Mirror) -> Augment:
    """Return a function that adds the mirror image to a batch."""

    def augment(
        env: Any, obs: TensorDict | None, actions: torch.Tensor | None
    ) -> tuple[TensorDict | None, torch.Tensor | None]:
        if obs is not None:
            image = {group: mirror.obs[group](values) for group, values in obs.items()}
            obs = torch.cat((obs, TensorDict(image, batch_size=obs.batch_size)))  # type: ignore[call-overload]
        if actions is not None:
            actions = torch.cat((actions, mirror.actions(actions)))
        return obs, actions

    return augment


def _check_images(function: Augment, name: Any, env: RslRlVecEnvWrapper) -> None:
    """Refuse a function whose images of images are not the batch."""
    like = env.get_observations()
    generator = torch.Generator().manual_seed(0)

    def drawn(values: torch.Tensor) -> torch.Tensor:
        return torch.randn(values.shape, generator=generator).to(values)

    groups = list(like.keys())
    obs = TensorDict({group: drawn(like[group]) for group in groups}, batch_size=like.batch_size)
    actions = drawn(env.env.actions)
    count = len(actions)
    seen, done = function(env=env, obs=obs, actions=actions)
    assert seen is not None
    assert done is not None
    for start in range(count, len(done), count):
        rows = slice(start, start + count)
        again, back = function(env=env, obs=seen[rows], actions=done[rows])
        assert again is not None
        assert back is not None
        errors = [float((again[group][rows] - obs[group]).abs().max()) for group in groups]
        worst = max(*errors, float((back[rows] - actions).abs().max()))
        if not worst <= TOLERANCE:
            raise ConfigurationError(
                f"agent.algorithm.symmetry_cfg.{FUNCTION} is {name!r}, a mirror that does not "
                f"square to the identity: applied twice, it changes values by {worst:.2g}. Correct "
                "it, or leave it out for the robot's own."
            )


def _filled(value: int, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return what ``torch.tensor`` does, which copies the number from the host and waits."""
    return torch.full((), value, dtype=dtype, device=device)


class UnreadNormalization(EmpiricalNormalization):
    """rsl_rl's normaliser with the same values, for which a GPU need not wait."""

    update = seeing(EmpiricalNormalization.update, torch.distributed, tensor=_filled)


class LocalNormalization(EmpiricalNormalization):
    """The same over only this process's samples, whatever the process group.

    rsl_rl 5.5.1 reduces its samples over the default group whenever there is one.
    """

    update = seeing(
        EmpiricalNormalization.update,
        SimpleNamespace(is_initialized=lambda: False),
        tensor=_filled,
    )


class UnreadGaussian(GaussianDistribution):
    """rsl_rl's Gaussian with the same draws, for which a GPU need not wait.

    ``torch.normal`` looks on the host whether deviations are negative.
    """

    @torch.no_grad()
    def sample(self) -> torch.Tensor:
        mean, std = self.params
        return torch.randn_like(mean) * std + mean


Algorithm = DistributedPPO | DistributedDistillation


def make_algorithm(
    env: RslRlVecEnvWrapper, cfg: RunnerCfg, context: DistributedContext, *, grad_sync: str
) -> Algorithm:
    """Build networks, optimizer and storage.

    Args:
        env: The environment.
        cfg: The agent's configuration.
        context: The process's context.
        grad_sync: ``ddp`` or ``library``.

    Raises:
        ConfigurationError: If rsl_rl refuses the configuration.
    """
    algorithm = _construct(env, cfg, context)
    if isinstance(cfg, DistillationCfg) and cfg.teachers:
        assert isinstance(algorithm, DistributedDistillation)
        algorithm.be_taught_by_specialists(cfg.teachers, env.env)
    dtype = settle_precision(cfg.precision, context)
    for name in cfg.NETWORKS:
        network = algorithm.networks[name]
        compute_in(network, dtype)
        if type(getattr(network, "distribution", None)) is GaussianDistribution:
            network.distribution.__class__ = UnreadGaussian
    is_local = torch.distributed.is_initialized() and not context.is_distributed
    _settle_normalisers(algorithm.networks.values(), is_local=is_local)
    if context.is_distributed and grad_sync == "ddp":
        algorithm.wrap()
    if isinstance(cfg, RslRlCfg):
        assert isinstance(algorithm, DistributedPPO)
        reason = "agent.overlap uses the GPU at the same time" if cfg.overlap else None
        reason = reason or obstacle(algorithm)
        if records_updates(cfg.graph, context.device, reason, is_main=context.is_main):
            algorithm.recorded = RecordedUpdate(algorithm, is_required=cfg.graph == "on")
    return algorithm


def _construct(env: RslRlVecEnvWrapper, cfg: RunnerCfg, context: DistributedContext) -> Algorithm:
    """Let the library build an algorithm of ours."""
    values = cfg.for_library()
    kind: type[Algorithm]
    if isinstance(cfg, DistillationCfg):
        kind, ours = DistributedDistillation, {}
    else:
        kind, ours = DistributedPPO, {"context": context}
    values["algorithm"] |= {"class_name": kind, **ours}
    symmetry = values["algorithm"].get("symmetry_cfg")
    if symmetry is not None:
        symmetry[FUNCTION] = symmetry_function(env, symmetry)
    values["multi_gpu"] = None
    if context.is_distributed:
        values["multi_gpu"] = {"global_rank": context.rank, "world_size": context.world_size}
    printed = io.StringIO()  # the library prints its networks
    try:
        with contextlib.redirect_stdout(printed):
            algorithm = kind.construct_algorithm(
                env.get_observations(), env, values, str(context.device)
            )
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError) as error:
        raise ConfigurationError(
            f"rsl_rl refuses the agent's configuration ({type(error).__name__}: {error}). "
            "Correct it by an override agent.<key>=<value>."
        ) from error
    logger.debug("%s", printed.getvalue().strip())
    assert isinstance(algorithm, kind)
    return algorithm


def _settle_normalisers(networks: Iterable[nn.Module], *, is_local: bool) -> None:
    """Have normalisers wait for no GPU; local ones learn only from this process's samples.

    Args:
        networks: The networks.
        is_local: Whether this process trains alone, as a member of a population.
    """
    for network in networks:
        for module in network.modules():
            if type(module) is EmpiricalNormalization:
                module.__class__ = LocalNormalization if is_local else UnreadNormalization
