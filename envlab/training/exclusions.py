"""Settings of a composed plan that exclude each other, be they flags, overrides or of a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from envlab.agent_cfg import value_at
from envlab.config import Override, sets_value
from envlab.config.conditions import check_conditions
from envlab.errors import ConfigurationError
from envlab.foreign import read_text
from envlab.training.flags import Flags, given_flag


def check_exclusions(
    flags: Flags, configs: Mapping[str, Any], overrides: Sequence[Override], base: Path | None
) -> None:
    """Refuse settings that exclude each other, as they declare at their fields.

    Args:
        flags: All flags.
        configs: The configurations by their root.
        overrides: The overrides that are in them.
        base: The run or file that they were taken from, if any.

    Raises:
        ConfigurationError: Naming both, with the line of one that stands in a file.
    """
    if configs["agent"].overlap and not configs["agent"].OVERLAPS:
        raise ConfigurationError(
            "agent.overlap=true has no effect here: only fast_sac and rsl_rl's PPO can collect "
            "while they learn. Leave it out, or train with one of them."
        )

    def given(setting: str) -> str | None:
        if setting.startswith("--"):
            return given_flag(flags, setting)
        path, _, wanted = setting.partition("=")
        root, _, name = path.partition(".")
        cfg = configs.get(root)
        value, default = value_at(cfg, name), getattr(type(cfg), name, None)
        if value == default or wanted not in ("", str(value)):
            return None
        for field in dataclasses.fields(flags):
            sets = field.metadata.get("sets") or f"agent.{field.name}"
            if sets == path and getattr(flags, field.name) is not None:
                return f"--{field.name} {value}"
        text = f"{path}={str(value).lower() if isinstance(value, bool) else value}"
        return text if sets_value(overrides, path) else f"{text}{_place(base, path)}"

    check_conditions({"--": flags} | {f"{root}.": cfg for root, cfg in configs.items()}, given)


def _place(base: Path | None, path: str) -> str:
    """Return the file and line in which a value stands, in brackets."""
    if base is None:
        return ""
    root, *names = path.split(".")
    file = base / "params" / f"{root}.yaml" if base.is_dir() else base
    node: Any = yaml.compose(read_text(file), Loader=yaml.SafeLoader)
    for wanted in names if base.is_dir() else (root, *names):
        found = {key.value: (key, value) for key, value in node.value}
        key, node = found[wanted]
    return f" ({file}, line {key.start_mark.line + 1})"
