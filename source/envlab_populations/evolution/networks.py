"""Networks that grow and shrink without forgetting: the effect of a change of shape on weights.

Parameters keep their names when layers are added or removed, so that those of two shapes are
matched by name: common entries are copied, added units first send nothing to the next layer, and an
added layer starts as the identity. The optimizer's moments are carried over in the same way.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from envlab_populations.population.architecture import Architecture

_ACTIVATIONS = {"relu": nn.ReLU, "elu": nn.ELU, "gelu": nn.GELU, "tanh": nn.Tanh}
SHIFTS = {"relu": 0.0, "elu": 1.0, "gelu": 6.0}
"""``c`` such that ``act(h + c) = h + c`` for every output ``h`` of the same activation: exactly for
ReLU (Chen et al. 2016, Net2Net) and ELU, which is at least -1; within 1e-6 for GELU. tanh has
no such ``c``."""


def preserves_function(architecture: Architecture) -> bool:
    """Return whether an added layer starts as the identity: not with tanh, nor normalised."""
    return architecture.activation in SHIFTS and not architecture.layer_norm


class EvolvableNetwork(nn.Module):
    """Convolutions where there are any, hidden layers, and an output."""

    def __init__(
        self,
        shape: Sequence[int],
        num_extra: int,
        num_outputs: int,
        architecture: Architecture,
    ) -> None:
        """Draw weights as torch's layers do, or orthogonal ones.

        Args:
            shape: Shape of an observation; an image's is ``(height, width, channels)``.
            num_extra: Further inputs, such as the actions that a critic judges.
            num_outputs: Outputs.
            architecture: The shape of the hidden layers.
        """
        super().__init__()
        self._shape = tuple(shape)
        self.architecture = architecture
        self._activation = _ACTIVATIONS[architecture.activation]()
        self.convolutions = nn.ModuleList()
        num_inputs = math.prod(self._shape)
        if architecture.channels:
            height, width, depth = self._shape
            layers = zip(
                architecture.channels, architecture.kernels, architecture.strides, strict=True
            )
            for channels, kernel, stride in layers:
                self.convolutions.append(
                    nn.Conv2d(depth, channels, kernel, stride, padding=kernel // 2)
                )
                depth, height, width = channels, -(-height // stride), -(-width // stride)
            num_inputs = depth * height * width
        sizes = (num_inputs + num_extra, *architecture.hidden)
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        norms = architecture.hidden if architecture.layer_norm else ()
        self.norms = nn.ModuleList(nn.LayerNorm(size) for size in norms)
        self.output = nn.Linear(sizes[-1], num_outputs)
        if architecture.orthogonal:
            for layer in (*self.convolutions, *self.hidden, self.output):
                nn.init.orthogonal_(layer.weight, math.sqrt(2.0))
                nn.init.zeros_(layer.bias)
            with torch.no_grad():
                self.output.weight.mul_(0.1)

    def forward(self, obs: torch.Tensor, extra: torch.Tensor | None = None) -> torch.Tensor:
        """Return outputs, ``(batch, num_outputs)``.

        Args:
            obs: Flat observations, ``(batch, prod(shape))``.
            extra: Further inputs, ``(batch, num_extra)``.
        """
        values = obs
        if len(self.convolutions) > 0:
            values = values.reshape(-1, *self._shape).permute(0, 3, 1, 2)
            for convolution in self.convolutions:
                values = self._activation(convolution(values))
            values = values.flatten(1)
        if extra is not None:  # first, so that added channels come last
            values = torch.cat((extra, values), 1)
        for layer, norm in itertools.zip_longest(self.hidden, self.norms):
            values = layer(values) if norm is None else norm(layer(values))
            values = self._activation(values)
        output: torch.Tensor = self.output(values)
        return output


def grafted(
    old: Mapping[str, torch.Tensor],
    new: Mapping[str, torch.Tensor],
    architecture: Architecture,
    num_extra: int = 0,
) -> dict[str, torch.Tensor]:
    """Return parameters of a new shape that compute the same as the old ones, where possible.

    It is where layers were added or widened, or kernels enlarged; not if anything was removed, nor
    with layer norm.

    Args:
        old: Parameters of a network, by name; others than the layers' are allowed.
        new: Fresh parameters of the other shape.
        architecture: The new shape.
        num_extra: Inputs in addition to the observation, see :class:`EvolvableNetwork`.
    """
    keeps = preserves_function(architecture)
    shift = SHIFTS[architecture.activation] if keeps else 0.0
    result = {}
    for name, fresh in new.items():
        if name in old:
            result[name] = _laid_into(fresh, old[name])
        elif re.search(r"(^|\.)norms\.", name):
            result[name] = fresh.clone()
        elif name.endswith(".weight"):
            result[name] = _identity(fresh)
        else:
            result[name] = torch.full_like(fresh, shift)
    for name in new:
        if shift and name not in old and name.endswith(".weight"):
            _take_shift_back(result, name, shift, num_extra)
    return result


def moved(old: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Return an optimizer's moments for a parameter's new shape, zero where it has grown."""
    if old.dim() == 0 or old.shape == shape:  # a count of steps, or nothing to do
        return old.clone()
    return _laid_into(torch.zeros(shape, dtype=old.dtype, device=old.device), old)


def _laid_into(fresh: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    """Return fresh values overwritten by the old ones from the first on; kernels are centred.

    Old rows get zeros in added columns, so that added units have no effect on them.
    """
    old = old.to(fresh.device)
    if fresh.shape == old.shape:
        return old.clone()
    result = fresh.clone()
    if result.dim() > 1:
        result[: old.shape[0]] = 0.0
    into, of = [], []
    for dim, (have, had) in enumerate(zip(fresh.shape, old.shape, strict=True)):
        size = min(have, had)
        is_kernel = dim >= 2
        first, first_old = ((have - size) // 2, (had - size) // 2) if is_kernel else (0, 0)
        into.append(slice(first, first + size))
        of.append(slice(first_old, first_old + size))
    result[tuple(into)] = old[tuple(of)]
    return result


def _identity(weight: torch.Tensor) -> torch.Tensor:
    result = torch.zeros_like(weight)
    if weight.dim() == 4:
        result[:, :, weight.shape[2] // 2, weight.shape[3] // 2] = torch.eye(weight.shape[0])
        return result
    return result.copy_(torch.eye(*weight.shape))


def _take_shift_back(
    parameters: dict[str, torch.Tensor], added: str, shift: float, num_extra: int
) -> None:
    """Have the layer after an added one subtract what its bias adds.

    The last convolution is followed by a fully connected layer, whose last inputs are its pixels.
    """
    found = re.fullmatch(r"(.*?)(convolutions|hidden)\.(\d+)\.weight", added)
    assert found is not None, added
    prefix, kind, number = found[1], found[2], int(found[3])
    after = f"{prefix}hidden.{0 if kind == 'convolutions' else number + 1}"
    if f"{after}.weight" not in parameters:
        after = f"{prefix}output"
    weight, bias = parameters[f"{after}.weight"], parameters[f"{after}.bias"]
    first = num_extra if kind == "convolutions" else 0
    parameters[f"{after}.bias"] = bias - shift * weight[:, first:].sum(1)
