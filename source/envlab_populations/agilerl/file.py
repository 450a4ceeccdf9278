"""Reading AgileRL's configuration files: both layouts, as one tree of settings.

Up to 2.7 a file of AgileRL's has ``INIT_HP``, ``MUTATION_PARAMS`` and ``NET_CONFIG``; since then it
is a manifest with the sections ``algorithm``, ``environment``, ``mutation``, ``network``,
``replay_buffer``, ``selection_strategy`` and ``training`` (2.9.1, ``agilerl/models/manifest.py``).
The former is read into the latter's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envlab.config import load_yaml
from envlab.config.translator import Translator, put
from envlab.errors import ConfigurationError

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


def read_agilerl(file: Path) -> Translator:
    """Return the settings of a configuration file of AgileRL's, by a manifest's names.

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
    if not is_old and "algorithm" not in values:
        raise ConfigurationError(
            f"{file} is not a configuration file of AgileRL: it has neither INIT_HP nor a section "
            f"algorithm, but {', '.join(map(str, values)) or 'nothing'}. "
            "Give one, such as configs/training/dqn/dqn.yaml in a checkout of it."
        )
    settings = Translator(values, peer="agilerl", file=str(file))
    for name in known:
        settings.part(name)
    return Translator(_modern(values), peer="agilerl", file=str(file)) if is_old else settings


def _modern(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the older layout under a manifest's names."""
    tree: dict[str, Any] = {}
    for name, value in (values.get("INIT_HP") or {}).items():
        path = f"run.{name}" if name in _MACHINE_ROOM else f"algorithm.{str(name).lower()}"
        put(tree, _INIT_HP.get(name, path), value)
    params = dict(values.get("MUTATION_PARAMS") or {})
    chosen = params.pop("RL_HP_SELECTION", None)
    for name, value in params.items():
        end, _, number = str(name).lower().partition("_")
        if end in ("min", "max") and (not isinstance(chosen, list) or number in chosen):
            bounds = f"mutation.rl_hp_selection.{number}"
            put(tree, f"{bounds}.{end}", value)
            for factor, by in _OLD_FACTORS.get(number, {}).items():
                put(tree, f"{bounds}.{factor}", by)
        elif end not in ("min", "max"):
            put(tree, _MUTATION_PARAMS.get(name, f"mutation.{name}"), value)
    for section in ("NET_CONFIG", "MLP", "CNN"):
        for name, value in (values.get(section) or {}).items():
            tree.setdefault("network", {}).setdefault(NETWORK_NAMES.get(name, name), value)
    rest = {name: value for name, value in values.items() if name not in _OLD_SECTIONS}
    return tree | {"run": tree.get("run", {}) | rest}
