"""Exported policies: TorchScript and ONNX, one file each, checked against the original."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces
from torch import nn

from envlab.distributed.disk import describe, hint, whole_file
from envlab.errors import EnvlabError, RunDirectoryError

logger = logging.getLogger(__name__)

TOLERANCE = 1e-5
"""Largest difference of an action, in units of the largest action if that is above 1: the samples
are far from what a normaliser has seen. Shipped networks: 1e-7 (jit), 2e-7 (ONNX), measured."""


def export_policy(
    policy: nn.Module,
    reference: Callable[[Any], torch.Tensor],
    obs_shape: int | Sequence[int] | spaces.Dict,
    directory: Path,
    *,
    is_traced: bool = False,
) -> list[Path]:
    """Write ``policy.pt`` and, if the packages are installed, ``policy.onnx``, and check both.

    Args:
        policy: Maps observations ``(batch, *obs_shape)``, images with their channels last, to
            actions, including the normaliser; scriptable, unless it is traced. Several groups are
            a dict; the files take one argument per group, in the order of the space.
        reference: The trained policy, for comparison.
        obs_shape: Shape of an observation, or its size; or the space of several groups, whose
            policy is traced.
        directory: Where to write.
        is_traced: Whether ``policy.pt`` is traced rather than scripted, for code that TorchScript
            does not support and whose control flow does not depend on observations.

    Returns:
        The files.

    Raises:
        RunDirectoryError: If they cannot be written.
        EnvlabError: If an exported policy acts differently.
    """
    policy = policy.cpu().eval()
    obs = _samples(obs_shape)
    by_group = isinstance(obs_shape, spaces.Dict)
    with torch.inference_mode():
        expected = reference(obs if by_group else obs["obs"])
    if by_group:
        policy, is_traced = _OnGroups(policy, list(obs)), True
    with exporting(directory):
        return _write(policy, obs, {"actions": expected}, directory, is_traced=is_traced)


@torch.no_grad()
def _write(
    policy: nn.Module,
    inputs: Mapping[str, torch.Tensor],
    expected: Mapping[str, torch.Tensor],
    directory: Path,
    *,
    is_traced: bool,
) -> list[Path]:
    """Write both files, and compare their outputs with the expected ones, by name."""
    values, names = tuple(inputs.values()), list(expected)
    jit_path = directory / "policy.pt"
    script = torch.jit.trace(policy, values) if is_traced else torch.jit.script(policy)
    with whole_file(jit_path) as file:  # torch's own writer hides why it fails (2.13)
        torch.jit.save(script, file)
    _compare("policy.pt", torch.jit.load(str(jit_path))(*values), expected)
    if _lacks_onnx():
        return [jit_path]
    onnx_path = directory / "policy.onnx"
    onnx_path.unlink(missing_ok=True)  # it could be a link to another file
    _export_onnx(policy, inputs, names, onnx_path)
    if importlib.util.find_spec("onnxruntime") is None:
        logger.info("policy.onnx was not checked: onnxruntime is not installed.")
    else:
        _compare("policy.onnx", run_onnx(onnx_path, inputs, names), expected)
    return [jit_path, onnx_path]


def _samples(obs_shape: int | Sequence[int] | spaces.Dict) -> dict[str, torch.Tensor]:
    """Return 64 random observations by argument name."""
    generator = torch.Generator().manual_seed(0)
    if not isinstance(obs_shape, spaces.Dict):
        shape = (obs_shape,) if isinstance(obs_shape, int) else tuple(obs_shape)
        return {"obs": torch.randn(64, *shape, generator=generator)}
    samples = {}
    for name, space in obs_shape.spaces.items():
        samples[name] = torch.randn(64, *(space.shape or ()), generator=generator)
        if space.dtype == "uint8":
            samples[name] = samples[name].mul(64.0).clamp(0.0, 255.0).byte()
    return samples


class _OnGroups(nn.Module):
    """A policy on a dict of observations, with one argument per group."""

    def __init__(self, policy: nn.Module, names: list[str]) -> None:
        super().__init__()
        self._policy, self._names = policy, names

    def forward(self, *groups: torch.Tensor) -> torch.Tensor:
        actions: torch.Tensor = self._policy(dict(zip(self._names, groups, strict=True)))
        return actions


def _export_onnx(
    policy: nn.Module, inputs: Mapping[str, torch.Tensor], outputs: list[str], path: Path
) -> None:
    shapes = tuple({0: torch.export.Dim("batch")} for _ in inputs)
    parameters = inspect.signature(policy.forward).parameters.values()
    takes_any = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
    # The exporter reports each missing optional package, and its own deprecations.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            policy,
            tuple(values[:2] for values in inputs.values()),
            str(path),
            input_names=list(inputs),
            output_names=outputs,
            dynamic_shapes=(shapes,) if takes_any else shapes,
            opset_version=18,
            external_data=False,  # else torch 2.13 puts the weights into a second file
            verbose=False,
        )


def run_onnx(
    path: Path, inputs: Mapping[str, torch.Tensor], outputs: list[str]
) -> list[torch.Tensor]:
    """Return an exported policy's outputs."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = session.run(outputs, {name: values.numpy() for name, values in inputs.items()})
    return [torch.from_numpy(values) for values in found]


def _compare(
    name: str,
    found: torch.Tensor | Sequence[torch.Tensor],
    expected: Mapping[str, torch.Tensor],
) -> None:
    values = [found] if isinstance(found, torch.Tensor) else found
    for (output, wanted), actual in zip(expected.items(), values, strict=True):
        check_alike(name if len(expected) == 1 else f"{name} ({output})", actual, wanted)


def check_alike(name: str, actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Refuse an exported policy whose actions are not those of the trained one."""
    difference = float((actual.detach() - expected.cpu()).abs().max())
    most = TOLERANCE * max(1.0, float(expected.abs().max()))
    if not (difference <= most and math.isfinite(difference)):
        raise EnvlabError(
            f"The exported {name} differs from the trained policy by {difference:.1e}, more than "
            f"{most:.0e}; do not deploy it, and please report the configuration."
        )


class ChannelsFirst(nn.Module):
    """Permutes images ``(batch, height, width, channels)`` to the layout of convolutions."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.permute(0, 3, 1, 2).contiguous()


def export_steps(
    policy: nn.Module,
    inputs: Mapping[str, torch.Tensor],
    outputs: Sequence[str],
    directory: Path,
) -> list[Path]:
    """Write one step of a policy with a memory as ``policy.pt`` and ``policy.onnx``.

    Args:
        policy: Takes the inputs in their order, ``(batch, ...)`` each, and returns the outputs. It
            is traced, so its control flow must not depend on the values.
        inputs: Values to compare the files by, by name: observations, then the memory.
        outputs: Names of the outputs.
        directory: Where to write.

    Returns:
        The files.

    Raises:
        RunDirectoryError: If they cannot be written.
        EnvlabError: If an exported policy acts differently.
    """
    policy = policy.cpu().eval()
    with torch.no_grad():
        expected = dict(zip(outputs, policy(*inputs.values()), strict=True))
    with exporting(directory):
        return _write(policy, inputs, expected, directory, is_traced=True)


def _lacks_onnx() -> bool:
    """Return whether packages are missing, and log it."""
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        logger.info("policy.onnx was not written: %s is not installed.", " and ".join(missing))
    return bool(missing)


@contextlib.contextmanager
def exporting(directory: Path) -> Iterator[None]:
    """Make a directory for the files that are written inside the block."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise RunDirectoryError(
            f"The policy cannot be exported to {directory} ({describe(directory, error)}). "
            f"{hint(error)} With --no_export, the policy plays and nothing is written."
        ) from error
