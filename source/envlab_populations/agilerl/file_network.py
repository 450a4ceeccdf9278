"""The networks of AgileRL's configuration files, as far as members have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envlab.config.translator import Translator
from envlab_populations.population.architecture import ACTIVATIONS

_COVERED = ("arch", "simba", "output_layernorm", "output_vanish")
"""Settings that the line about networks covers."""
_RECURRENT = "members have no recurrent networks: give layers by hidden_size instead"


@dataclass(frozen=True, kw_only=True)
class Part:
    """An encoder or a head."""

    hidden: list[int]
    activation: str | None
    min_layers: int
    max_layers: int
    min_units: int
    max_units: int
    channels: list[int]
    kernels: list[int]
    strides: list[int]
    min_channels: int
    max_channels: int
    is_simba: bool
    layer_norm: bool
    is_orthogonal: bool

    @classmethod
    def of(cls, settings: Translator, path: str, is_current: bool) -> Part:
        """Return the part that a file describes; missing bounds are AgileRL's (``net_configs.py``).

        Args:
            settings: The file.
            path: The part's path.
            is_current: Whether the file is for AgileRL 2, whose layers are normalised and begin
                orthogonal unless it says otherwise.

        Raises:
            ConfigurationError: For networks that members do not have.
        """
        part = settings.part(path)
        part.refuse("hidden_state_size", _RECURRENT)
        if part.text("arch") == "lstm":
            raise part.refusal("arch", "lstm", _RECURRENT)
        blocks = part.whole("num_blocks")
        if blocks:
            hidden = [part.whole("hidden_size") or 128] * blocks
        else:
            hidden = part.sizes("hidden_size")
        return cls(
            hidden=hidden,
            activation=part.text("activation"),
            channels=part.sizes("channel_size"),
            kernels=part.sizes("kernel_size"),
            strides=part.sizes("stride_size"),
            is_simba=bool(blocks),
            layer_norm=part.flag("layer_norm", is_current),
            is_orthogonal=part.flag("init_layers", is_current),
            min_layers=part.whole("min_hidden_layers", 1),
            max_layers=part.whole("max_hidden_layers", 3),
            min_units=part.whole("min_mlp_nodes", 16),
            max_units=part.whole("max_mlp_nodes", 500),
            min_channels=part.whole("min_channel_size", 16),
            max_channels=part.whole("max_channel_size", 256),
        )


def parts_of(settings: Translator) -> tuple[list[Part], int | None]:
    """Return the networks' parts, and the encoder's output size.

    Raises:
        ConfigurationError: For networks that members do not have.
    """
    encoder = settings.part("network.encoder_config")
    encoder.refuse(
        "mlp_config", "members' networks take no observations of several parts: give hidden_size"
    )
    if not any(name.endswith("_config") for name in settings.names("network")):  # before 2.0
        return [Part.of(settings, "network", False)], settings.whole("network.latent_dim")
    parts = [Part.of(settings, f"network.{name}_config", True) for name in ("encoder", "head")]
    for bound in ("min_latent_dim", "max_latent_dim"):
        settings.take(f"network.{bound}")
    return parts, settings.whole("network.latent_dim") or 64


def network_values(settings: Translator) -> dict[str, Any]:
    """Return ``agent.network`` for a file's networks, and note each difference.

    Encoder, latent space and head become one row of layers.

    Raises:
        ConfigurationError: For networks that members do not have.
    """
    parts, latent = parts_of(settings)
    encoder, *heads = parts
    values: dict[str, Any] = {}
    notes = settings.notes
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
    for path in settings.part("network").report():
        if path.rpartition(".")[2] in _COVERED:
            settings.take(path)
    return values | _activation([part.activation for part in parts if part.activation], notes)


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
