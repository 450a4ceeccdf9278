"""AgileRL's names: which exist here, and the messages for the others."""

from __future__ import annotations

import enum
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
import types
from pathlib import Path
from typing import Any

from envlab.errors import ConfigurationError
from envlab_populations.agilerl.settings import tell
from envlab_populations.agilerl.words import REFUSED

HERE = "envlab_populations.agilerl"
MOVED = "pettingzoo.mpe"
"""A module that became the package mpe2 in PettingZoo 1.25."""
_AGENTS = dict.fromkeys(("DQN", "CQN", "DDPG", "TD3", "PPO"), "agent")
_AGENTS |= dict.fromkeys(("MADDPG", "MATD3"), "crew")
_MEMORY = dict.fromkeys(("ReplayBuffer", "ReplayDataset", "Sampler", "Transition"), "memory")
_HP = dict.fromkeys(("HyperparameterConfig", "RLParameter"), "settings")
_SELECTION = dict.fromkeys(
    ("TournamentSelection", "MultiFrequencySelection", "Mutations", "RSNorm"), "selection"
)
_SPACES = (
    *("observation_space_channels_to_first", "obs_channels_to_first"),
    *("get_input_size_from_space", "get_output_size_from_space"),
)
_UTILS = {
    **dict.fromkeys(("create_population", "print_hyperparams"), "selection"),
    **dict.fromkeys(
        ("make_vect_envs", "make_skill_vect_envs", "Skill", "default_progress_bar"), "environments"
    ),
    **dict.fromkeys((*_SPACES, "calculate_vectorized_scores"), "environments"),
}
_LOOPS = ("train_off_policy", "train_on_policy", "train_offline", "train_multi_agent_off_policy")
_TRAINING = dict.fromkeys(_LOOPS, "training")
_TRAINING |= dict.fromkeys(
    ("Population", "init_loggers", "run_selection_and_mutation"), "generations"
)
_PARALLEL = (
    *("AsyncPettingZooVecEnv", "PettingZooVecEnv", "make_multi_agent_vect_envs"),
    "PettingZooVectorizationParallelWrapper",
)
_TRAINING |= {"collect_rollouts": "rollouts"}
_NETWORKS = dict.fromkeys(("MakeEvolvable", "DummyEvolvable"), "networks")
NAMES = _AGENTS | _MEMORY | _HP | _SELECTION | _UTILS | _TRAINING | _NETWORKS
NAMES |= dict.fromkeys(_PARALLEL, "parallel")
"""AgileRL's names, in any of its modules, and our modules that define them."""
RENAMED = {
    "initialPopulation": "create_population",
    "makeVectEnvs": "make_vect_envs",
    "printHyperparams": "print_hyperparams",
    "MultiAgentReplayBuffer": "ReplayBuffer",
    "MultiAgentTransition": "Transition",
}
"""Names of 0.1, and their names here."""
MODULES = (
    *("algorithms", "algorithms.core", "algorithms.core.registry", "components"),
    *("components.data", "components.replay_buffer", "components.replay_data"),
    *("components.sampler", "hpo", "hpo.mutation", "hpo.tournament", "hpo.multi_frequency"),
    *("rollouts", "rollouts.on_policy", "training", "training.train_off_policy"),
    *("training.train_on_policy", "training.train_offline", "utils", "utils.utils"),
    *("components.multi_agent_replay_buffer", "training.train_multi_agent_off_policy"),
    *("population", "vector", "vector.pz_async_vec_env", "vector.pz_vec_env"),
    *("utils.algo_utils", "wrappers", "wrappers.agent", "wrappers.learning"),
    "wrappers.pettingzoo_wrappers",
    *("wrappers.make_evolvable", "modules", "modules.dummy", "typing"),
    *(f"algorithms.{name.lower()}" for name in _AGENTS),
)
"""AgileRL's modules that exist here."""
_REASONS = {
    "train_multi_agent_on_policy": f"is for IPPO, {REFUSED['ippo']}",
    "train_multi_agent": "is a loop of AgileRL 0.1: call train_multi_agent_off_policy in its place",
    **dict.fromkeys(
        ("MultiStepReplayBuffer", "PrioritizedReplayBuffer", "RainbowQNetwork"),
        f"is for Rainbow, {REFUSED['rainbow']}",
    ),
    **dict.fromkeys(
        ("collect_rollouts_recurrent", "BPTTSequenceType"),
        "is for recurrent agents, but members have no recurrent networks. Set recurrent to false, "
        "or train a recurrent PPO by envlab train ddppo",
    ),
    **dict.fromkeys(
        ("BanditEnv", "train_bandits"),
        "is for contextual bandits, which envlab does not have. Use AgileRL for it",
    ),
    **dict.fromkeys(
        ("llm", "llm_envs", "llm_utils", "train_llm", "HAS_LLM_DEPENDENCIES", "data", "gpt"),
        "is for language models, which envlab does not tune. Use AgileRL",
    ),
    "train": "is a loop of AgileRL 0.1: call train_off_policy or train_offline of "
    "agilerl.training in its place",
    "LocalTrainer": "trains from a manifest: use envlab train evolution --agilerl FILE",
}


class Absent:
    """A name that can be imported, but raises an error with the reason when it is used."""

    def __init__(self, name: str) -> None:
        self._absent = name

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise _refusal(self._absent)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _refusal(self._absent)


class BPTTSequenceType(enum.Enum):
    """How recurrent agents cut their sequences: unused, but programs import it."""

    CHUNKED = "chunked"
    MAXIMUM = "maximum"
    FIFTY_PERCENT_OVERLAP = "fifty_percent_overlap"


def agent_class(name: str) -> Any:
    """Return the class of an algorithm.

    Raises:
        ConfigurationError: If it does not evolve here.
    """
    known = {_short(one): one for one in _AGENTS}
    short = _short(name)
    if short not in known:
        raise _refusal(name)
    return found(known[short])


def found(name: str) -> Any:
    """Return our object for a name of AgileRL's.

    Raises:
        ConfigurationError: If there is none.
    """
    name = RENAMED.get(name, name)
    if name in NAMES:
        return getattr(importlib.import_module(f"{HERE}.{NAMES[name]}"), name)
    if name == "BPTTSequenceType":
        return BPTTSequenceType
    if name == "collect_rollouts_recurrent":  # imported with the other, and seldom called
        return Absent(name)
    raise _refusal(name)


def _short(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _refusal(name: str) -> ConfigurationError:
    known = REFUSED.get(_short(name))
    reason = _REASONS.get(name, known if known is None else f"is an algorithm {known}")
    if reason is None:
        return ConfigurationError(
            f"envlab's stand-in for AgileRL has no {name}. docs/from_agilerl.md lists the "
            "supported names; install agilerl for all of them."
        )
    return ConfigurationError(f"{name} {reason}.")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes AgileRL's modules when they are imported."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname == MOVED and importlib.util.find_spec("mpe2") is not None:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        if fullname != "agilerl" and not fullname.startswith("agilerl."):
            return None
        name = fullname.partition(".")[2]
        if name and name not in MODULES:
            parts = reversed(name.split("."))
            known = (part for part in parts if part in _REASONS or _short(part) in REFUSED)
            raise _refusal(next(known, fullname))
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        module = types.ModuleType(spec.name, "AgileRL's interface over envlab's populations.")

        def missing(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            if spec.name == MOVED:
                tell(f"{MOVED}.{name} no longer exists; mpe2.{name} takes its place")
                return importlib.import_module(f"mpe2.{name}")
            return found(name)

        module.__getattr__ = missing  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: names are resolved on access."""


def install() -> None:
    """Let ``import agilerl`` find this package, in this process.

    AgileRL's checkout as the current folder, which ``python -m`` makes importable, is replaced:
    its programs are run there.

    Raises:
        ConfigurationError: If AgileRL itself is installed.
    """
    if any(isinstance(one, Finder) for one in sys.meta_path):
        return
    spec = None if "agilerl" in sys.modules else importlib.util.find_spec("agilerl")
    is_checkout = spec is not None and spec.origin == str(Path.cwd() / "agilerl/__init__.py")
    if "agilerl" in sys.modules or (spec is not None and not is_checkout):
        raise ConfigurationError(
            "AgileRL itself is installed in this interpreter, so envlab does not replace it. "
            "Run the program with python alone, or uninstall agilerl."
        )
    sys.meta_path.insert(0, Finder())
