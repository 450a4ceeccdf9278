"""The networks of AgileRL's configuration files, as far as members have them."""

from __future__ import annotations

from dataclasses import dataclass, field

from envlab.errors import ConfigurationError
from envlab_populations.evolution.agilerl_file import Settings


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

    @classmethod
    def of(cls, settings: Settings, path: str) -> Part:
        """Return what a file says of it; bounds that it lacks are AgileRL's (``net_configs.py``).

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
            **counts,
        )


def parts_of(settings: Settings) -> tuple[list[Part], int | None]:
    """Return the networks' parts, and the size of what the encoder hands to the head.

    Raises:
        ConfigurationError: For networks that members do not have.
    """
    if any(name.startswith("network.encoder_config.mlp_config") for name in settings.unused()):
        raise ConfigurationError(
            f"network.encoder_config in {settings.file} is for observations of several parts "
            "(mlp_config), which members' networks do not take. Give hidden_size."
        )
    if not any("_config." in name for name in settings.unused()):  # before 2.0
        return [Part.of(settings, "network")], settings.count("network.latent_dim")
    parts = [Part.of(settings, f"network.{name}_config") for name in ("encoder", "head")]
    for bound in ("min_latent_dim", "max_latent_dim"):
        settings.drop(f"network.{bound}")
    return parts, settings.count("network.latent_dim") or 64
