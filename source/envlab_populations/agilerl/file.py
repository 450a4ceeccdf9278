"""Reading AgileRL's configuration files: both layouts, as one tree of settings.

Up to 2.7 a file of AgileRL's has ``INIT_HP``, ``MUTATION_PARAMS`` and ``NET_CONFIG``; since then it
is a manifest with the sections ``algorithm``, ``environment``, ``mutation``, ``network``,
``replay_buffer``, ``selection_strategy`` and ``training`` (2.9.1, ``agilerl/models/manifest.py``).
The former is read into the latter's names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from envlab.config import load_yaml
from envlab.errors import ConfigurationError

T = TypeVar("T")

SECTIONS = (
    *("algorithm", "environment", "mutation", "network"),
    *("replay_buffer", "selection_strategy", "training"),
)
"""Sections of a manifest."""
_OLD_SECTIONS = ("INIT_HP", "MUTATION_PARAMS", "NET_CONFIG", "MLP", "CNN")
_INIT_HP = {
    "ALGO": "algorithm.name",
    "O_U_NOISE": "algorithm.O_U_noise",
    "ENV_NAME": "environment.name",
    "NUM_ENVS": "environment.num_envs",
    "MEMORY_SIZE": "replay_buffer.max_size",
    "PER": "replay_buffer.per_buffer",
    "TOURN_SIZE": "selection_strategy.tournament_size",
    "ELITISM": "selection_strategy.elitism",
    "POPULATION_SIZE": "training.pop_size",
    **{
        name: f"training.{name.lower()}"
        for name in (
            *("MAX_STEPS", "TARGET_SCORE", "POP_SIZE", "EVO_STEPS", "EVAL_STEPS", "EVAL_LOOP"),
            *("LEARNING_DELAY", "EPS_START", "EPS_END", "EPS_DECAY", "EPISODES", "EVO_EPOCHS"),
        )
    },
}
"""Where a manifest has the settings of ``INIT_HP``; all others are the algorithm's."""
_MUTATION_PARAMS = {
    **{
        name: f"mutation.probabilities.{name.lower()}"
        for name in ("NO_MUT", "ARCH_MUT", "NEW_LAYER", "PARAMS_MUT", "ACT_MUT", "RL_HP_MUT")
    },
    "MUT_SD": "mutation.mutation_sd",
    "RAND_SEED": "mutation.rand_seed",
}
NETWORK_NAMES = {
    **{"h_size": "hidden_size", "mlp_activation": "activation"},
    **{"c_size": "channel_size", "k_size": "kernel_size", "s_size": "stride_size"},
}
"""Names of the networks' settings before 2.0, and since."""
_MACHINE_ROOM = ("WANDB", "CHANNELS_LAST", "DISCRETE_ACTIONS", "DISTRIBUTED_TRAINING")
_OLD_FACTORS = {"learn_step": {"grow_factor": 1.5, "shrink_factor": 0.75}}
"""Factors of AgileRL's own training script for the old files (2.0.0, ``benchmarking/``)."""


class Settings:
    """The settings of a file, which record which of them were read.

    Attributes:
        file: The file.
        is_manifest: Whether it is of the newer layout.
    """

    def __init__(self, file: Path, tree: Mapping[str, Any], is_manifest: bool) -> None:
        """Take the sections of a manifest; settings without a value count as absent."""
        self.file, self.is_manifest = file, is_manifest
        self._values = dict(_leaves(tree, ""))
        self._asked: set[str] = set()

    def text(self, path: str) -> str | None:
        """Return a string, or None."""
        return self._typed(path, str, "a text")

    def flag(self, path: str, default: bool = False) -> bool:
        """Return a truth value."""
        value = self._typed(path, bool, "true or false")
        return default if value is None else value

    def number(self, path: str) -> float | None:
        """Return a number, or None."""
        value = self._take(path)
        return None if value is None else self._number(path, value)

    def count(self, path: str) -> int | None:
        """Return a whole number of 0 or more, or None."""
        value = self.number(path)
        if value is not None and (value < 0 or not value.is_integer()):
            raise self.mistake(path, value, "a whole number of 0 or more")
        return None if value is None else int(value)

    def sizes(self, path: str) -> list[int]:
        """Return whole numbers, of which there may be none."""
        value = self._take(path)
        if value is None:
            return []
        numbers = [self._number(path, one) for one in value] if isinstance(value, list) else [0.0]
        if any(number < 1 or not number.is_integer() for number in numbers):
            raise self.mistake(path, value, "a list of whole numbers such as [64, 64]")
        return [int(number) for number in numbers]

    def names_below(self, path: str) -> list[str]:
        """Return the names of the settings in a section."""
        above = f"{path}."
        below = [name.removeprefix(above) for name in self._values if name.startswith(above)]
        return list(dict.fromkeys(name.partition(".")[0] for name in below))

    def drop(self, path: str) -> None:
        """Count a setting, or all of a section, as read."""
        self._asked |= {n for n in self._values if f"{n}.".startswith(f"{path}.")}

    def unused(self) -> list[str]:
        """Return the settings that nothing has read."""
        return [name for name in self._values if name not in self._asked]

    def is_off(self, path: str) -> bool:
        """Return whether a setting is false, and thus has no effect."""
        return self._values.get(path) is False

    def mistake(self, path: str, value: Any, expected: str) -> ConfigurationError:
        """Return the error for a value of the wrong kind."""
        return ConfigurationError(
            f"{path} in {self.file} is {value!r}, but must be {expected}. Correct it."
        )

    def _typed(self, path: str, kind: type[T], expected: str) -> T | None:
        value = self._take(path)
        if value is not None and not isinstance(value, kind):
            raise self.mistake(path, value, expected)
        return value

    def _take(self, path: str) -> Any:
        self._asked.add(path)
        return self._values.get(path)

    def _number(self, path: str, value: Any) -> float:
        try:  # 100_000 is a number in YAML 1.1, and a text in 1.2
            number = float(value) if not isinstance(value, (bool, list)) else float("nan")
        except (TypeError, ValueError):
            number = float("nan")
        if number != number:
            raise self.mistake(path, value, "a number")
        return number


def read_agilerl(file: Path) -> Settings:
    """Return the settings of a configuration file of AgileRL's.

    Raises:
        ConfigurationError: If it cannot be read, or is not such a file.
    """
    if file.is_dir():
        found = sorted(str(one) for one in file.rglob("*.yaml"))
        raise ConfigurationError(
            f"{file} is a folder, but --agilerl takes one file. It holds "
            f"{', '.join(found) or 'no .yaml file'}."
        )
    values = load_yaml(file)
    is_old = "INIT_HP" in values
    known = _OLD_SECTIONS if is_old else SECTIONS
    if not is_old and not isinstance(values.get("algorithm"), Mapping):
        raise ConfigurationError(
            f"{file} is not a configuration file of AgileRL: it has neither INIT_HP nor a section "
            f"algorithm, but {', '.join(map(str, values)) or 'nothing'}."
        )
    wrong = [
        name
        for name in known
        if values.get(name) is not None and not isinstance(values[name], Mapping)
    ]
    if wrong:
        raise ConfigurationError(f"{wrong[0]} in {file} must hold keys and values. Correct it.")
    return Settings(file, _modern(values) if is_old else values, not is_old)


def _modern(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the older layout under a manifest's names."""
    tree: dict[str, Any] = {}
    for name, value in (values.get("INIT_HP") or {}).items():
        path = f"run.{name}" if name in _MACHINE_ROOM else f"algorithm.{str(name).lower()}"
        _set(tree, _INIT_HP.get(name, path), value)
    params = dict(values.get("MUTATION_PARAMS") or {})
    chosen = params.pop("RL_HP_SELECTION", None)
    for name, value in params.items():
        end, _, number = str(name).lower().partition("_")
        if end in ("min", "max") and (not isinstance(chosen, list) or number in chosen):
            bounds = f"mutation.rl_hp_selection.{number}"
            _set(tree, f"{bounds}.{end}", value)
            for factor, by in _OLD_FACTORS.get(number, {}).items():
                _set(tree, f"{bounds}.{factor}", by)
        elif end not in ("min", "max"):
            _set(tree, _MUTATION_PARAMS.get(name, f"mutation.{name}"), value)
    for section in ("NET_CONFIG", "MLP", "CNN"):
        for name, value in (values.get(section) or {}).items():
            tree.setdefault("network", {}).setdefault(NETWORK_NAMES.get(name, name), value)
    rest = {name: value for name, value in values.items() if name not in _OLD_SECTIONS}
    return tree | {"run": tree.get("run", {}) | rest}


def _set(tree: dict[str, Any], path: str, value: Any) -> None:
    *sections, name = path.split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
    tree[name] = value


def _leaves(tree: Mapping[str, Any], above: str) -> Sequence[tuple[str, Any]]:
    """Return values by dotted path, without nulls."""
    found: list[tuple[str, Any]] = []
    for name, value in tree.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping):
            found += _leaves(value, f"{path}.")
        elif value is not None:
            found.append((path, value))
    return found
