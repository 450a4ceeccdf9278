"""The networks of AgileRL's configuration files, as far as members have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from envlab.errors import ConfigurationError
from envlab_populations.agilerl.file import Settings
from envlab_populations.population.architecture import ACTIVATIONS

_COVERED = ("arch", "simba", "output_layernorm", "output_vanish")
"""Settings that the line about networks covers."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """An encoder or a head."""

    hidden: list[int]
    activation: str | None
    min_layers: int
    max_layers: int
    min_units: int
    max_units: int
    channels: list[int] = field(default_factory=list)
    kernels: list[int] = field(default_factory=list)
    strides: list[int] = field(default_factory=list)
    min_channels: int = 16
    max_channels: int = 256
    is_simba: bool = False
    layer_norm: bool = False
    is_orthogonal: bool = False

    @classmethod
    def of(cls, settings: Settings, path: str, is_current: bool) -> Part:
        """Return the part that a file describes; missing bounds are AgileRL's (``net_configs.py``).

        Args:
            settings: The file.
            path: The part's path.
            is_current: Whether the file is for AgileRL 2, whose layers are normalised and begin
                orthogonal unless it says otherwise.

        Raises:
            ConfigurationError: For networks that members do not have.
        """
        is_recurrent = "hidden_state_size" in settings.names_below(path)
        if is_recurrent or settings.text(f"{path}.arch") == "lstm":
            raise ConfigurationError(
                f"{path} in {settings.file} is recurrent, but members have no recurrent networks. "
                "Give layers by hidden_size instead."
            )
        blocks = settings.count(f"{path}.num_blocks")
        if blocks:
            hidden = [settings.count(f"{path}.hidden_size") or 128] * blocks
        else:
            hidden = settings.sizes(f"{path}.hidden_size")
        counts = {
            name: default if (value := settings.count(f"{path}.{theirs}")) is None else value
            for name, theirs, default in (
                *(("min_layers", "min_hidden_layers", 1), ("max_layers", "max_hidden_layers", 3)),
                *(("min_units", "min_mlp_nodes", 16), ("max_units", "max_mlp_nodes", 500)),
                ("min_channels", "min_channel_size", 16),
                ("max_channels", "max_channel_size", 256),
            )
        }
        return cls(
            hidden=hidden,
            activation=settings.text(f"{path}.activation"),
            channels=settings.sizes(f"{path}.channel_size"),
            kernels=settings.sizes(f"{path}.kernel_size"),
            strides=settings.sizes(f"{path}.stride_size"),
            is_simba=bool(blocks),
            layer_norm=settings.flag(f"{path}.layer_norm", is_current),
            is_orthogonal=settings.flag(f"{path}.init_layers", is_current),
            **counts,
        )


def parts_of(settings: Settings) -> tuple[list[Part], int | None]:
    """Return the networks' parts, and the encoder's output size.

    Raises:
        ConfigurationError: For networks that members do not have.
    """
    if any(name.startswith("network.encoder_config.mlp_config") for name in settings.unused()):
        raise ConfigurationError(
            f"network.encoder_config in {settings.file} is for observations of several parts "
            "(mlp_config), which members' networks do not take. Give hidden_size."
        )
    if not any("_config." in name for name in settings.unused()):  # before 2.0
        return [Part.of(settings, "network", False)], settings.count("network.latent_dim")
    parts = [Part.of(settings, f"network.{name}_config", True) for name in ("encoder", "head")]
    for bound in ("min_latent_dim", "max_latent_dim"):
        settings.drop(f"network.{bound}")
    return parts, settings.count("network.latent_dim") or 64


def network_values(settings: Settings) -> tuple[dict[str, Any], list[str]]:
    """Return ``agent.network`` for a file's networks, and a line on each difference.

    Encoder, latent space and head become one row of layers.

    Raises:
        ConfigurationError: For networks that members do not have.
    """
    parts, latent = parts_of(settings)
    encoder, *heads = parts
    values: dict[str, Any] = {}
    notes: list[str] = []
    sizes = [] if encoder.channels else list(encoder.hidden)
    bounds = [part for part in parts if part.hidden]
    sizes += [latent] if latent else []
    sizes += [size for head in heads for size in head.hidden]
    if encoder.channels:
        values |= _convolutions(encoder, notes)
    if sizes:
        most = sum(part.max_layers for part in bounds) + bool(latent)
        least = sum(part.min_layers for part in bounds) + bool(latent)
        least = min(least, len(encoder.channels) or least)
        values |= {
            "hidden_dims": sizes,
            "min_layers": min(least, len(sizes)),
            "max_layers": max(most, len(sizes), len(encoder.channels)),
            "min_units": min([*(part.min_units for part in bounds), *sizes]),
            "max_units": max([*(part.max_units for part in bounds), *sizes]),
        }
        row = "-".join(map(str, sizes))
        values["layer_norm"] = any(part.layer_norm for part in bounds)
        values["orthogonal"] = any(part.is_orthogonal for part in bounds)
        notes.append(
            f"network: one row of layers {row}, for policy and critic, "
            + ("with layer norm" if values["layer_norm"] else "without layer norm")
            + (", without SimBa's residual blocks" if encoder.is_simba else "")
        )
    values |= _activation([part.activation for part in parts if part.activation], notes)
    for path in [name for name in settings.unused() if name.startswith("network.")]:
        if path.rpartition(".")[2] in _COVERED:
            settings.drop(path)
    return values, notes


def _convolutions(encoder: Part, notes: list[str]) -> dict[str, Any]:
    kernels = [size + 1 - size % 2 for size in encoder.kernels]
    if kernels != encoder.kernels:
        notes.append(f"kernel_size: {encoder.kernels} becomes {kernels}: kernels are odd here")
    return {
        "channels": encoder.channels,
        "kernel_sizes": kernels,
        "strides": encoder.strides,
        "min_channels": min([encoder.min_channels, *encoder.channels]),
        "max_channels": max([encoder.max_channels, *encoder.channels]),
    }


def _activation(names: Sequence[str], notes: list[str]) -> dict[str, str]:
    known = [name.lower() for name in names if name.lower() in ACTIVATIONS]
    others = [name for name in names if name.lower() != (known or ["relu"])[0]]
    if others:
        notes.append(
            f"activation: {others[0]} becomes {(known or ['relu'])[0]}: a member's layers have "
            f"one activation function of {', '.join(ACTIVATIONS)}"
        )
    return {"activation": known[0]} if known else {}
