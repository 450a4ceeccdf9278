"""Trained networks from files of TorchScript, which run no code beyond its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from envlab.envs.model_files import package_folder
from envlab.errors import ConfigurationError


def load_network(file: str, option: str, device: torch.device, *, others: str = "") -> Any:
    """Return a network in evaluation, whose weights stay as they are.

    Args:
        file: A path, or ``package:path`` for a file in a package.
        option: The setting that names it, for errors.
        device: Where it is to compute.
        others: What the setting may name besides, for errors: ``", or one of a, b"``.

    Raises:
        ConfigurationError: If there is no such file, or it is not TorchScript.
    """
    package, colon, inside = file.partition(":")
    path = package_folder(file, package, option) / inside if colon else Path(file).expanduser()
    if not path.is_file():
        raise ConfigurationError(
            f"{option} is {file!r}, which does not exist. Give the path of a TorchScript file"
            f"{others}."
        )
    try:
        network = torch.jit.load(str(path), map_location=device).eval()
    except RuntimeError as error:
        raise ConfigurationError(
            f"{option} {file} is not TorchScript ({str(error).splitlines()[0]:.80}). Save one by "
            "torch.jit.script(network).save()."
        ) from error
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    return network
