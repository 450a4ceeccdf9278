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
        ConfigurationError: Naming both, with the file's line if one comes from a file.
    """
    if configs["agent"].overlap and not configs["agent"].OVERLAPS:
        raise ConfigurationError(
            "agent.overlap=true has no effect here: only fast_sac and rsl_rl's PPO can collect "
            "while they learn. Leave it out, or train with one of them."
        )
    paths = {f"agent.{path}": name for name, path in configs["agent"].FLAGS.items()}
    for field in dataclasses.fields(flags):
        paths.setdefault(field.metadata.get("path", ""), field.name)

    def flag_of(path: str) -> str | None:
        """Return the given flag that sets a value."""
        name = paths.get(path)
        return name if name and getattr(flags, name, None) is not None else None

    def given(setting: str) -> str | None:
        if setting.startswith("--"):
            return given_flag(flags, setting)
        path, _, wanted = setting.partition("=")
        value = value_at(configs, path)
        if value == _default(configs, path) or wanted not in ("", str(value)):
            return None
        if name := flag_of(path):
            return f"--{name} {value}"
        return f"{path}={str(value).lower() if isinstance(value, bool) else value}"

    def place(setting: str) -> str:
        path = setting.partition("=")[0]
        is_words = path.startswith("--") or flag_of(path) or sets_value(overrides, path)
        return "" if is_words or base is None else _place(base, path)

    check_conditions(
        {"--": flags} | {f"{root}.": cfg for root, cfg in configs.items()}, given, place
    )


def _default(configs: Mapping[str, Any], path: str) -> Any:
    """Return the default of a value; None if there is no such field."""
    above, _, name = path.rpartition(".")
    fields = getattr(value_at(configs, above), "__dataclass_fields__", {})
    if name not in fields:
        return None
    default, factory = fields[name].default, fields[name].default_factory
    return default if factory is dataclasses.MISSING else factory()


def _place(base: Path, path: str) -> str:
    """Return the file and line in which a value stands, in brackets; empty if it is nowhere."""
    root, *names = path.split(".")
    file = base / "params" / f"{root}.yaml" if base.is_dir() else base
    node: Any = yaml.compose(read_text(file), Loader=yaml.SafeLoader)
    line = 0
    for wanted in names if base.is_dir() else (root, *names):
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        key, node = next((pair for pair in pairs if pair[0].value == wanted), (None, None))
        if key is None:  # such as below a merge key
            return ""
        line = key.start_mark.line + 1
    return f" ({file}, line {line})"
