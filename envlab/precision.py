"""Number format of a policy's hidden layers: float32, or a shorter one if a processor supports it.

Parameters, outputs, losses, gradients of parameters, and running statistics are always float32.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import nn

from envlab.agent_cfg import Precision
from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError

logger = logging.getLogger(__name__)

NARROW = 32
"""Layers with fewer outputs stay in float32: they compute actions and values, and a conversion
takes longer than the layer."""


def settle_precision(precision: Precision, context: DistributedContext) -> torch.dtype:
    """Return the type for computing: for ``auto``, bfloat16 if all ranks' devices support it.

    Every rank must call this.

    Raises:
        ConfigurationError: If bfloat16 or TF32 is requested and a rank's device does not support
            it.
    """
    if precision == "tf32":
        (lacking,) = context.max(int(not has_tf32(context.device)))
        if lacking:
            raise ConfigurationError(
                "agent.precision is 'tf32', which needs a GPU of compute capability 8.0 or newer, "
                f"but a process of this run learns on {context.device}. Set it to float32 or auto."
            )
    if context.device.type == "cuda":  # of the process, so a run before may have set another one
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    if precision in ("float32", "tf32"):
        return torch.float32
    (lacking,) = context.max(int(not has_bfloat16(context.device)))
    if not lacking:
        return torch.bfloat16
    if precision == "bfloat16":
        raise ConfigurationError(
            "agent.precision is 'bfloat16', which a processor of this run does not have "
            "(avx512_bf16, or a GPU of compute capability 8.0). Set it to float32, or to auto."
        )
    logger.info("agent.precision=auto: float32, since a processor of this run has no bfloat16.")
    return torch.float32


def has_bfloat16(device: torch.device) -> bool:
    """Return whether a device itself computes in bfloat16; torch emulates it slowly on any.

    Nothing else asks a processor for it, so that a test can pretend either answer.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported()


def has_tf32(device: torch.device) -> bool:
    """Return whether a device multiplies matrices of float32 in TF32, of 10 bits."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def compute_in(network: nn.Module, dtype: torch.dtype) -> None:
    """Compute the wide layers of each ``nn.Sequential`` of a network in another type.

    Args:
        network: Its layers must be in ``nn.Sequential``, like those of multilayer perceptrons and
            convolutions; others, such as recurrent ones, are not changed.
        dtype: ``torch.bfloat16``; ``torch.float32`` changes no layer.
    """
    if dtype == torch.float32:
        return
    inside: set[nn.Module] = set()
    for module in network.modules():
        if isinstance(module, nn.Sequential) and module not in inside:
            inside.update(module.modules())
            _Autocast(dtype).surround(module)
            for layer in module.modules():
                if isinstance(layer, nn.Linear) and layer.out_features < NARROW:
                    _Autocast(None).surround(layer)


class _Autocast:
    """torch's autocast, or float32 within it, around a module's forward pass."""

    def __init__(self, dtype: torch.dtype | None) -> None:
        self._dtype, self._entered = dtype, list[torch.autocast]()

    def surround(self, module: nn.Module) -> None:
        module.register_forward_pre_hook(self._enter)
        module.register_forward_hook(self._leave, always_call=True)

    def _enter(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        device = args[0].device.type
        self._entered.append(torch.autocast(device, self._dtype, enabled=self._dtype is not None))
        self._entered[-1].__enter__()
        return (args[0].float(), *args[1:]) if self._dtype is None else args

    def _leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        self._entered.pop().__exit__(None, None, None)
        return output.float() if isinstance(output, torch.Tensor) else output
