"""Quantities that skrl 2.1.1 on JAX computes from one rank's samples, computed over all ranks.

Everything here uses the process group of :mod:`envlab.distributed.context`, so JAX itself knows
only one process: its coordinator would abort every rank as soon as rank 0 dies. This holds under
skrl's launcher for JAX too, see :mod:`envlab.distributed.ranks`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import torch
from jax.flatten_util import ravel_pytree

from envlab.distributed.context import DistributedContext
from envlab.distributed.statistics import batch_moments, pooled_moments
from envlab.errors import DeviceError
from envlab.skrl.jax.arrays import to_jax, view_in_torch
from envlab.skrl.library import load_skrl

load_skrl()

from skrl.resources.preprocessors.jax import RunningStandardScaler  # noqa: E402


def start_jax(context: DistributedContext) -> jax.Device:
    """Start JAX's backend for this process and return the device to use.

    Call it before JAX computes anything; from then on JAX ignores such settings. On a CPU it takes
    ``NPROC`` for the number of cores (measured with jax 0.10: as many Eigen threads; the flag
    ``--xla_cpu_multi_thread_eigen=false`` no longer has an effect). On a GPU it would take three
    quarters of the memory, of which torch and Warp need their share.

    Raises:
        DeviceError: If the context's device is a GPU and JAX cannot use it.
    """
    settings = {
        "NPROC": str(context.num_threads),
        "XLA_PYTHON_CLIENT_PREALLOCATE": os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        return _start(context)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start(context: DistributedContext) -> jax.Device:
    is_cuda = context.device.type == "cuda"
    jax.config.update("jax_platforms", "cuda,cpu" if is_cuda else "cpu")
    if is_cuda:
        # Keeps this process from making a CUDA context on the other GPUs.
        jax.config.update("jax_cuda_visible_devices", str(context.device.index or 0))
    try:
        device = jax.devices("cuda" if is_cuda else "cpu")[0]
    except RuntimeError as error:
        raise DeviceError(
            f"The device is {context.device}, but JAX {jax.__version__} cannot use it "
            f"({str(error).splitlines()[0]}). Install JAX for CUDA with: pip install "
            "'jax[cuda12]', or use --device cpu."
        ) from error
    jax.config.update("jax_default_device", device)
    return device


class PooledScaler(RunningStandardScaler):
    """skrl's normaliser, over the samples of all ranks."""

    context: ClassVar[DistributedContext]

    @classmethod
    def of(cls, context: DistributedContext) -> type[PooledScaler]:
        """Return the class for a context; skrl makes the objects, and copies their arguments."""
        return type(cls.__name__, (cls,), {"context": context})

    def __call__(
        self, x: jax.Array | None, *, train: bool = False, inverse: bool = False
    ) -> jax.Array | None:
        if x is not None and train and self.context.is_distributed:
            mean, variance, count = _column_moments(x, self.context)
            self._parallel_variance(to_jax(mean), to_jax(variance), count)
            train = False
        return super().__call__(x, train=train, inverse=inverse)


class AveragingOptimizer:
    """Replaces an optimizer of skrl, and averages the gradients over ranks before a step."""

    def __init__(self, optimizer: Any, average: Callable[[Any], Any]) -> None:
        """Wrap an optimizer; ``average`` is from :func:`gradient_average`."""
        self.optimizer = optimizer
        self._average = average

    @property
    def state(self) -> Any:
        """The optimizer's own state, a tree of arrays."""
        return self.optimizer.state

    def replace(self, *, state: Any) -> AveragingOptimizer:
        """Return this optimizer with another state."""
        return AveragingOptimizer(self.optimizer.replace(state=state), self._average)

    def step(self, *, grad: Any, model: Any, lr: float | None = None) -> AveragingOptimizer:
        """Change the model's parameters, as skrl's optimizers do."""
        optimizer = self.optimizer.step(grad=self._average(grad), model=model, lr=lr)
        return AveragingOptimizer(optimizer, self._average)


def gradient_average(parameters: Any, context: DistributedContext) -> Callable[[Any], Any]:
    """Return a function that averages trees like ``parameters`` over ranks.

    It also reports progress: the watchdog sees steps of PyTorch's optimizers, but not of JAX's, and
    an update may take longer than the watchdog allows.

    All gradients are one vector and one collective. Both conversions are compiled once, while skrl
    recompiles its own reduction in every call.
    """
    if not context.is_distributed:

        def unchanged(tree: Any) -> Any:
            context.progress.mark()
            return tree

        return unchanged
    _, unravel = ravel_pytree(parameters)
    to_vector = jax.jit(lambda tree: ravel_pytree(tree)[0])
    to_tree = jax.jit(unravel)

    def average(tree: Any) -> Any:
        vector = to_vector(tree)
        total = context.sum(view_in_torch(vector))  # on a copy
        return to_tree(jax.dlpack.from_dlpack(total.div_(context.world_size)))

    return average


def pooled_schedule(
    schedule: Callable[..., float], context: DistributedContext
) -> Callable[..., float]:
    """Return a learning rate scheduler that sees the mean KL divergence of all ranks."""
    if not context.is_distributed:
        return schedule

    @functools.wraps(schedule)
    def pooled(count: int, *, kl: float | None = None, **kwargs: Any) -> float:
        if kl is None:
            return schedule(count, **kwargs)
        mean = context.sum(torch.tensor(float(kl), dtype=torch.float64)) / context.world_size
        return schedule(count, kl=float(mean), **kwargs)

    return pooled


def compute_advantages(
    context: DistributedContext, *, time_limit_bootstrap: bool, **values: Any
) -> tuple[jax.Array, jax.Array]:
    """Return returns and normalised advantages, ``(num_steps, num_envs, 1)``.

    ``update`` calls it instead of skrl's ``_compute_gae``, which normalises over one rank, and cuts
    at a time limit only with ``time_limit_bootstrap``: see
    :func:`envlab.skrl.torch.ranks.pooled_advantages`.
    """
    del time_limit_bootstrap  # the agent has added the final state's value to the reward, or not
    returns, advantages = _estimate_advantages(**values)
    mean, std = pooled_moments(view_in_torch(advantages), context)
    count = advantages.size * context.world_size
    biased_std = std * ((count - 1) / count) ** 0.5  # skrl divides by the number of samples
    return returns, _standardised(advantages, to_jax(mean), to_jax(biased_std))


@jax.jit
def _estimate_advantages(
    *,
    rewards: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    values: jax.Array,
    last_values: jax.Array,
    discount_factor: float,
    lambda_coefficient: float,
) -> tuple[jax.Array, jax.Array]:
    """Return returns and advantages, from the last step to the first."""
    continues = jnp.logical_not(jnp.logical_or(terminated, truncated))
    next_values = jnp.concatenate((values[1:], last_values[None]))

    def step(advantage: jax.Array, now: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        reward, value, next_value, alive = now
        following = next_value + lambda_coefficient * advantage
        advantage = reward - value + discount_factor * alive * following
        return advantage, advantage

    steps = (rewards, values, next_values, continues)
    _, advantages = jax.lax.scan(step, jnp.zeros_like(last_values), steps, reverse=True)
    return advantages + values, advantages


@jax.jit
def _standardised(values: jax.Array, mean: jax.Array, std: jax.Array) -> jax.Array:
    return (values - mean) / (std + 1e-8)


def _column_moments(
    values: jax.Array, context: DistributedContext
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return means, unbiased variances and the number of rows over all ranks."""
    mean, variance, count = batch_moments(view_in_torch(values).flatten(0, -2), context)
    return mean.float(), (variance * (count / (count - 1))).float(), int(count)
