"""JAX alongside torch in our process: on the context's device, with the context's threads.

JAX does not know of other ranks. Ranks agree through the same process group as everything else,
even under skrl's launcher for JAX, see :mod:`envlab.distributed.ranks`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from envlab.distributed.context import DistributedContext
from envlab.errors import DeviceError

if TYPE_CHECKING:
    import jax


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
    import jax

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
