"""rsl_rl's algorithms, built as in its runners, for the ranks of a run."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterable
from types import SimpleNamespace

import torch
from rsl_rl.modules import EmpiricalNormalization
from rsl_rl.modules.distribution import GaussianDistribution
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.envs.wrappers.rsl_rl import RslRlVecEnvWrapper
from envlab.errors import ConfigurationError
from envlab.precision import compute_in, settle_precision
from envlab.rsl_rl.cfg import DistillationCfg, RslRlCfg, RunnerCfg
from envlab.rsl_rl.distillation import DistributedDistillation
from envlab.rsl_rl.joined import seeing
from envlab.rsl_rl.ppo import DistributedPPO
from envlab.rsl_rl.recorded_update import RecordedUpdate, obstacle
from envlab.rsl_rl.symmetry import FUNCTION, symmetry_function
from envlab.sim.recording import records_updates

logger = logging.getLogger(__name__)


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
        algorithm.be_taught_by_ground(cfg.teachers, env.env)
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
