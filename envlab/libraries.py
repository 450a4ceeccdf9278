"""The one table of the libraries that train: what the command line, doctor and docs read.

A third party's library registers by being installed, as tasks do: an entry point of the group
``envlab.libraries`` names a :class:`Library`. One that cannot be loaded is reported and skipped.
Reading the table imports no library and no torch.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from envlab.errors import ConfigurationError, did_you_mean
from envlab.registry import load_entry_point, packages_of

logger = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "envlab.libraries"


@dataclass(frozen=True, kw_only=True)
class Library:
    """A way to train. What it is made of is named as ``module:name`` and loaded when needed."""

    name: str
    """As in ``envlab train NAME``, ``logs/NAME`` and ``NAME_cfg_entry_point``."""
    cfg: str
    """``(flags) -> AgentCfg``: the default configuration; see :mod:`envlab.agent_cfg`."""
    build: str
    """``(session, env, context) -> Learner``; see :class:`envlab.learner.Learner`."""
    player: str
    """``(session, env, context, values) -> Player``, where values are a checkpoint's."""
    description: str
    """A line for ``envlab --help``."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Packages it trains with, of which all ranks need the same versions; and the module of each
    that is imported to see whether it loads, or nothing."""
    flags: str | None = None
    """``(parser) -> None``: adds the library's own flags to those of all libraries."""
    has_members: bool = False
    """Whether ``--population_size`` trains several learners of it at once, see
    :mod:`envlab.train.population`."""
    prepare: str | None = None
    """``(command, words) -> words``: what the words after ``train``, ``play`` or ``config LIBRARY``
    stand for, where the library has more to say than flags and overrides, such as a file."""

    def default_cfg(self, flags: argparse.Namespace) -> Any:
        """Return the configuration that a task's own values and overrides are laid over."""
        return load_entry_point(self.cfg)(flags)

    def load(self, part: str) -> Callable[..., Any]:
        """Return the function behind ``build``, ``player``, ``flags`` or ``prepare``.

        Raises:
            ConfigurationError: If there is no such module or name.
        """
        function: Callable[..., Any] = load_entry_point(getattr(self, part))
        return function


BUILT_IN = (
    Library(
        name="rsl_rl",
        cfg="envlab.rsl_rl.cfg:default_cfg",
        build="envlab.rsl_rl.learner:build",
        player="envlab.rsl_rl.play:RslRlPlayer",
        description="PPO by rsl_rl, as legged robots are trained with",
        packages={"rsl-rl-lib": "rsl_rl.runners", "tensordict": ""},
        has_members=True,
    ),
    Library(
        name="rl_games",
        cfg="envlab.rl_games.cfg:default_cfg",
        build="envlab.rl_games.learner:build",
        player="envlab.rl_games.play:RlGamesPlayer",
        description="PPO, continuous and discrete, and SAC by rl_games",
        packages={"rl-games": "rl_games.torch_runner"},
        has_members=True,
    ),
    Library(
        name="skrl",
        cfg="envlab.skrl.main:default_cfg",
        build="envlab.skrl.main:build",
        player="envlab.skrl.main:make_player",
        flags="envlab.skrl.main:add_flags",
        description="a dozen algorithms, several agents too, by skrl on PyTorch or JAX",
        packages={"skrl": "skrl.agents.torch.ppo"},
        has_members=True,
    ),
    Library(
        name="fast_sac",
        cfg="envlab.fast_sac.cfg:default_cfg",
        build="envlab.fast_sac.learner:build",
        player="envlab.fast_sac.play:FastSacPlayer",
        description="FastSAC: off-policy learning from many environments, by envlab's own code",
    ),
    Library(
        name="ddppo",
        cfg="envlab_navigation.ddppo.cfg:default_cfg",
        build="envlab_navigation.ddppo.build:build",
        player="envlab_navigation.ddppo.play:DdppoPlayer",
        flags="envlab_navigation.ddppo.flags:add_flags",
        prepare="envlab_navigation.ddppo.experiment_words:prepare",
        description="recurrent PPO for agents that see, by envlab's own DD-PPO",
    ),
    Library(
        name="hogwild",
        cfg="envlab_populations.hogwild.cfg:default_cfg",
        build="envlab_populations.hogwild.learner:build",
        player="envlab_populations.hogwild.learner:make_player",
        flags="envlab_populations.hogwild.cfg:add_flags",
        description="sessions on shared parameters, by skrl's agents: see envlab lab run",
    ),
    Library(
        name="evolution",
        cfg="envlab_populations.evolution.cfg:default_cfg",
        build="envlab_populations.evolution.learner:build",
        player="envlab_populations.evolution.play:EvolutionPlayer",
        flags="envlab_populations.evolution.cfg:add_flags",
        description="populations of skrl's agents that evolve while they learn",
        packages={"skrl": "skrl.agents.torch.ppo"},
    ),
)


ENGINE_PACKAGES = (
    *("torch", "numpy", "mujoco", "gymnasium", "hydra-core", "omegaconf"),
    *("mujoco-warp", "warp-lang", "jax", "flax"),
)
"""Packages of envlab's own that compute what ranks must compute alike, or read what is sent."""


def packages_alike() -> list[str]:
    """Return the packages of which all ranks need the same versions."""
    return [*ENGINE_PACKAGES, *(name for one in libraries().values() for name in one.packages)]


@cache
def libraries() -> dict[str, Library]:
    """Return all libraries by name: envlab's own, then those of installed packages."""
    found = {library.name: library for library in BUILT_IN}
    for entry_point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        try:
            library = entry_point.load()
            if not isinstance(library, Library):
                raise TypeError(f"it is a {type(library).__name__}, not a Library")
        except Exception as error:  # of somebody else's package, which must not stop ours
            logger.warning(
                "The library %s (entry point %r) cannot be loaded and is skipped: %s: %s",
                entry_point.value,
                entry_point.name,
                type(error).__name__,
                error,
            )
            continue
        found.setdefault(library.name, library)
    return found


def trusted_modules() -> frozenset[str]:
    """Return the packages of libraries, whose code a file may name; envlab's own name none."""
    parts = [
        (one.cfg, one.build, one.player, one.flags or "", one.prepare or "")
        for one in libraries().values()
    ]
    return frozenset(packages_of(entry_point for part in parts for entry_point in part))


def get_library(name: str) -> Library:
    """Return a library by its name.

    Raises:
        ConfigurationError: If there is none, with the nearest names.
    """
    known = libraries()
    if name not in known:
        raise ConfigurationError(
            f"There is no library {name!r}; there are "
            f"{', '.join(known)}.{did_you_mean(name, known)}"
        )
    return known[name]
